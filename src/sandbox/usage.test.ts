/** Resource use of a sandbox, read from folders that look like the kernel's, and from this machine. */
import { beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, statfsSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { folderOfTest } from "../base/testing/test-folder.ts";
import { UsageMeter } from "./usage.ts";

const MIB = 1024 * 1024;
const folder = folderOfTest("usage");
const folders = { cgroup: join(folder, "cgroup"), proc: join(folder, "proc") };
const sandbox = { id: "i1", cgroup: "/sandlot/x/i1", rootPid: 7 };

function put(path: string, content: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), `${content}\n`);
}

beforeEach(() => {
  mkdirSync(join(folder, "proc/7"), { recursive: true });
  symlinkSync(tmpdir(), join(folder, "proc/7/root"));
});

const layouts = {
  "version 2": () => {
    put("cgroup/cgroup.controllers", "cpu memory");
    put("cgroup/sandlot/x/i1/cpu.stat", "usage_usec 1500000\nuser_usec 1");
    put("cgroup/sandlot/x/i1/memory.current", String(100 * MIB));
    put("cgroup/sandlot/x/i1/memory.stat", `anon 1\nfile ${40 * MIB}\nfile_mapped 5\nshmem ${10 * MIB}`);
  },
  "version 1": () => {
    put("cgroup/cpu,cpuacct/sandlot/x/i1/cpuacct.usage", "1500000000");
    put("cgroup/memory/sandlot/x/i1/memory.usage_in_bytes", String(100 * MIB));
    put(
      "cgroup/memory/sandlot/x/i1/memory.stat",
      `cache 1\nshmem 1\ntotal_cache ${40 * MIB}\ntotal_shmem ${10 * MIB}\ntotal_rss 3`,
    );
  },
};

describe.each(Object.keys(layouts))("with cgroup %s", (layout) => {
  beforeEach(() => layouts[layout as keyof typeof layouts]());

  test("processor time, memory without cache, and disk use are read", async () => {
    const { blocks, bsize } = statfsSync(tmpdir());
    const usage = await new UsageMeter(folders).read(sandbox);
    expect(usage).toMatchObject({ cpuUsedMs: 1500, memUsed: 70 * MIB, memCache: 30 * MIB, diskTotal: blocks * bsize });
    expect(usage.diskUsed).toBeGreaterThan(0);
  });

  test("an ended sandbox is left out", async () => {
    const meter = new UsageMeter(folders);
    const gone = { id: "i2", cgroup: "/sandlot/x/i2", rootPid: 8 };
    expect([...(await meter.readAll([gone, sandbox])).keys()]).toEqual(["i1"]);
  });
});
