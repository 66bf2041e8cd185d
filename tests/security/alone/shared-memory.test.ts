/** Sandboxes of named teams share equal memory pages; no other process on the machine takes part. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { systemCode } from "../../../src/base/system-code.ts";
import { recordsIn } from "../../../src/sandbox/sandbox-record.ts";
import { freezerOf, processesBelow } from "../../../src/system/cgroup/freezer.ts";
import { MERGING_FOLDER, mergedMemory, mergingFault } from "../../../src/system/page-merging.ts";
import { RealServer } from "../../support/real-server.ts";
import { newDataFolder, removeServer, startServer } from "../../support/server.ts";
import { until } from "../../support/until.ts";

const LIFE = { timeoutMs: 600_000 };
const FILLED_MIB = 32;
const FILLED_PAGES = (FILLED_MIB * 1024 ** 2) / 4096;
/** Fills memory with pages that differ from each other and are equal in all sandboxes, and prints a digest of them. */
const FILLING = `
import hashlib, sys
filled = bytearray(b"".join(hashlib.sha512(str(page).encode()).digest() * 64 for page in range(${FILLED_PAGES})))
while True:
    print(hashlib.sha256(filled).hexdigest(), flush=True)
    sys.stdin.readline()
`;
/** Each way to take part without the operator. The kernel reads the lower half of the advice only. */
const JOINING = `
import ctypes, mmap, platform
libc = ctypes.CDLL(None, use_errno=True)
madvise, process_madvise = {"x86_64": (28, 440), "aarch64": (233, 440)}[platform.machine()]
memory = mmap.mmap(-1, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
def tried(*call):
    ctypes.set_errno(0)
    return "made" if libc.syscall(*map(ctypes.c_long, call)) == 0 else str(ctypes.get_errno())
print(tried(madvise, address, 4096, 12), tried(madvise, address, 4096, (1 << 32) + 12), tried(madvise, address, 4096, 4))
print("made" if libc.prctl(67, 1, 0, 0, 0) == 0 else ctypes.get_errno(), tried(process_madvise, -1, 0, 0, 12, 0))
`;

const before = valuesOf(MERGING_FOLDER);
const unsupported = await mergingFault();

test.if(unsupported !== undefined)("a kernel without page merging is named", () => {
  expect(unsupported).toContain("Linux 6.7");
});

describe.if(unsupported === undefined)("with two teams, of which one shares memory", () => {
  let server: RealServer;
  let first: Sandbox;
  let second: Sandbox;
  let outsider: Sandbox;

  beforeAll(async () => {
    server = await RealServer.open(newDataFolder("shared-memory"), { sharedMemory: ["default"] });
    const outside = server.optionsWith(await server.anotherTeam("outsiders"));
    [first, second, outsider] = await Promise.all([
      Sandbox.create({ ...server.optionsWith(), ...LIFE }),
      Sandbox.create({ ...server.optionsWith(), ...LIFE }),
      Sandbox.create({ ...outside, ...LIFE }),
    ]);
    await Promise.all([first, second, outsider].map(fill));
  });
  afterAll(async () => {
    for (const sandbox of [first, second, outsider]) await sandbox.kill();
    // Another program's change must not keep a value from being restored.
    if ("advisor_mode" in before) writeFileSync(join(MERGING_FOLDER, "advisor_mode"), "scan-time");
    await server[Symbol.asyncDispose]();
    expect(valuesOf(MERGING_FOLDER)).toEqual(before);
  });

  const processesOf = async ({ sandboxId }: Sandbox): Promise<number[]> => {
    const record = recordsIn(server.data.sandboxesFolder).find(({ id }) => id === sandboxId);
    return await processesBelow(freezerOf(record?.cgroup ?? ""));
  };
  const mergedPages = async (sandbox: Sandbox): Promise<number> => mergedPagesOf(await processesOf(sandbox));

  test("equal pages of its sandboxes are merged, those of an outsider are not", async () => {
    await until("the first sandbox is merged", async () => (await mergedPages(first)) > FILLED_PAGES * 0.9);
    await until("the second sandbox is merged", async () => (await mergedPages(second)) > FILLED_PAGES * 0.9);
    expect(mergedMemory()?.savedBytes).toBeGreaterThan(FILLED_PAGES * 0.9 * 4096);
    for (const pids of [await processesOf(outsider), [process.pid]]) {
      expect(mergedPagesOf(pids)).toBe(0);
      expect(markedIn(pids)).toEqual([]);
    }
  });

  test("its first program has no random addresses, so that guests are alike; programs of its users have them", async () => {
    const command = "cat /proc/1/personality /proc/self/personality";
    const read = async (sandbox: Sandbox) => (await sandbox.commands.run(command, { user: "root" })).stdout;
    expect(await read(first)).toBe("00040000\n00000000\n");
    expect(await read(outsider)).toBe("00000000\n00000000\n");
  });

  test("the shared and the saved bytes are those of all merged pages on the machine", async () => {
    // ksmd counts pages of an ended process until its next scan.
    await until("both count the same pages", async () => {
      const { sharedBytes = 0, savedBytes = 0 } = mergedMemory() ?? {};
      return sharedBytes + savedBytes === mergedPagesOf(processesOnMachine()) * 4096;
    });
  });

  test("a merged sandbox keeps its memory over pauses, and is merged again", async () => {
    const digest = await digestOf(first);
    // The second resume uses a CRIU that was started ahead.
    for (let round = 0; round < 2; round++) {
      await first.pause();
      await first.connect(LIFE);
      expect(await digestOf(first)).toBe(digest);
    }
    expect(await digestOf(second)).toBe(digest);
    await until("the resumed sandbox is merged", async () => (await mergedPages(first)) > FILLED_PAGES * 0.9);
  });

  test("a sandbox that is resumed after its team has left the group is not merged", async () => {
    const digest = await digestOf(second);
    await second.pause();
    const team = await server.store.people.teamBySlug("default");
    await server.store.people.setLimits(team?.id ?? "", { sharedMemory: false });
    await second.connect(LIFE);
    expect(await digestOf(second)).toBe(digest);
    const pids = await processesOf(second);
    expect(pids.length).toBeGreaterThan(2);
    expect(markedIn(pids)).toEqual([]);
    expect(mergedPagesOf(pids)).toBe(0);
  });

  test("a start that names an unknown team is refused, and keeps the first API key", async () => {
    const folder = newDataFolder("unknown-team");
    const start = startServer(folder, { SANDLOT_SHARED_MEMORY: "defualt" });
    await expect(start).rejects.toThrow('sharedMemory names "defualt", which is not a team');
    expect(existsSync(join(folder, "api-key"))).toBe(true);
    await removeServer(folder);
  });

  test("a program cannot join the group by itself", async () => {
    const { stdout } = await outsider.commands.run(`python3 -c '${JOINING}'`, { user: "root" });
    expect(stdout).toBe("22 1 made\n22 1\n");
  });
});

async function fill(sandbox: Sandbox): Promise<void> {
  await sandbox.files.write("/tmp/filling.py", FILLING);
  await sandbox.commands.run("mkfifo /tmp/in; touch /tmp/out");
  const command = "exec 3<>/tmp/in; exec python3 /tmp/filling.py <&3 >/tmp/out";
  await sandbox.commands.run(command, { background: true, timeoutMs: 0 });
  await digestOf(sandbox);
}

/** The digest of the filled memory, read now. */
async function digestOf(sandbox: Sandbox): Promise<string> {
  const wait = "n=$(wc -l < /tmp/out); echo > /tmp/in; until test $(wc -l < /tmp/out) -gt $n; do sleep 0.02; done";
  return (await sandbox.commands.run(`${wait}; tail -n 1 /tmp/out`)).stdout.trim();
}

/** Those of these processes that the kernel may merge, as a whole or in part. */
function markedIn(pids: readonly number[]): number[] {
  return pids.filter(
    (pid) =>
      / mg\b/.test(readFileSync(`/proc/${pid}/smaps`, "utf8")) ||
      statOf(pid, "ksm_merge_any:") === "yes" ||
      statOf(pid, "ksm_mergeable:") === "yes",
  );
}

function mergedPagesOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + Number(statOf(pid, "ksm_merging_pages")), 0);
}

function processesOnMachine(): number[] {
  return readdirSync("/proc").map(Number).filter(Number.isInteger);
}

/** Empty for a process that has ended, and for a line that this kernel does not have. */
function statOf(pid: number, name: string): string {
  const line = statLines(pid).find((each) => each.startsWith(`${name} `));
  return line?.slice(name.length + 1) ?? "";
}

function statLines(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/ksm_stat`, "utf8").split("\n");
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes(systemCode(error))) return [];
    throw error;
  }
}

/** Settings of ksmd; its counters are read-only. */
function valuesOf(folder: string): Record<string, string> {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const settings = names.filter((name) => /^(run|advisor_.*|pages_to_scan|sleep_millisecs|smart_scan)$/.test(name));
  return Object.fromEntries(settings.map((name) => [name, readFileSync(join(folder, name), "utf8").trim()]));
}
