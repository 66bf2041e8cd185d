/** The promises of the Runtime interface. Every runtime is held to them; a new one joins the table below. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chownSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BASE_TEMPLATE } from "../../../src/contract/management/base-template.ts";
import { cgroupLayout, removeCgroups } from "../../../src/host/cgroup/cgroups.ts";
import { imageFolder } from "../../../src/host/image/image-folder.ts";
import { Crun } from "../../../src/host/runtime/crun/crun.ts";
import { ociSpec } from "../../../src/host/runtime/crun/oci-spec.ts";
import type { Runtime } from "../../../src/host/runtime/runtime.ts";
import { startTicks } from "../../../src/host/sandbox/sandbox-record.ts";
import { BASE_IMAGE } from "../../../src/host/setup/base-image.ts";
import { guestFolder } from "../../../src/host/setup/guest-folder.ts";
import { run } from "../../../src/host/system/command.ts";
import { HOST_ID_FIRST } from "../../../src/host/system/id-range.ts";
import { Toolbox } from "../../../src/host/system/toolbox.ts";

const CACHE = process.env.SANDLOT_CACHE ?? "/var/cache/sandlot";
const toolbox = new Toolbox(CACHE);
// Sandbox roots must be reachable for their mapped root, and in memory is fine for so little.
const folder = `/run/sandlot-test-${process.pid}`;
const runtimes: Record<string, () => Runtime> = {
  crun: () => new Crun(toolbox, join(folder, "crun")),
};

beforeAll(async () => {
  for (const name of ["", "crun", "layer", "root"]) mkdirSync(join(folder, name), { recursive: true, mode: 0o711 });
  await run(["mount", "-t", "tmpfs", "-o", "mode=711", "none", join(folder, "layer")]);
  for (const name of ["upper", "work"]) mkdirSync(join(folder, "layer", name), { mode: 0o755 });
  chownSync(join(folder, "layer/upper"), HOST_ID_FIRST, HOST_ID_FIRST);
  const layers = `lowerdir=${imageFolder(CACHE, BASE_IMAGE)},upperdir=${folder}/layer/upper,workdir=${folder}/layer/work`;
  await run(["mount", "-t", "overlay", "overlay", "-o", layers, join(folder, "root")]);
});
afterAll(async () => {
  for (const name of ["root", "layer"]) await run(["umount", "--lazy", join(folder, name)]);
  await removeCgroups(`/sandlot-test-${process.pid}`);
  rmSync(folder, { recursive: true, force: true });
});

function bundleOf(id: string): string {
  const bundle = join(folder, id);
  mkdirSync(bundle, { recursive: true, mode: 0o711 });
  const spec = ociSpec({
    kind: { ...BASE_TEMPLATE, templateId: BASE_TEMPLATE.id, image: BASE_IMAGE },
    rootFolder: join(folder, "root"),
    guestFolder: guestFolder(toolbox),
    cgroupPath: `/sandlot-test-${process.pid}/${id}`,
    cgroupV1: cgroupLayout() !== "v2",
    processors: undefined,
    controlSecret: "secret",
    bootIdFile: "/proc/sys/kernel/random/boot_id",
    hostname: "e2b.local",
    copy: false,
    openFilesMax: 1024,
  });
  writeFileSync(join(bundle, "config.json"), JSON.stringify(spec));
  return bundle;
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
}

async function gone(pid: number): Promise<void> {
  while (startTicks(pid) !== undefined) await Bun.sleep(5);
}

describe.each(Object.keys(runtimes))("%s", (name) => {
  const runtime = (): Runtime => {
    const make = runtimes[name];
    if (make === undefined) throw new Error(name);
    return make();
  };

  test("create makes the walls and runs nothing of the sandbox until start", async () => {
    const pid = await runtime().create("one", bundleOf("one"));
    expect(startTicks(pid)).toBeDefined();
    expect(commandOf(pid)).not.toContain("/.sandlot/bin/init");
    expect(readFileSync(`/proc/${pid}/uid_map`, "utf8").trim().split(/\s+/)).toEqual(["0", "1900000000", "65536"]);
    await runtime().start("one");
    while (!commandOf(pid).includes("/.sandlot/bin/init")) await Bun.sleep(5);
    expect(await runtime().list()).toEqual(["one"]);
    await runtime().remove("one");
    await gone(pid);
    expect(await runtime().list()).toEqual([]);
  });

  test("remove ends a sandbox that was never started, one whose process died, and accepts the unknown", async () => {
    const idle = await runtime().create("idle", bundleOf("idle"));
    await runtime().remove("idle");
    await gone(idle);
    const dead = await runtime().create("dead", bundleOf("dead"));
    await runtime().start("dead");
    process.kill(dead, "SIGKILL");
    await gone(dead);
    await runtime().remove("dead");
    await runtime().remove("never-was");
    expect(await runtime().list()).toEqual([]);
  });

  test("a sandbox that cannot be made is an error that says why, and leaves no process", async () => {
    const bundle = bundleOf("bad");
    const config = JSON.parse(readFileSync(join(bundle, "config.json"), "utf8"));
    config.mounts.push({ destination: "/mnt", type: "bind", source: "/no-such-source", options: ["bind"] });
    writeFileSync(join(bundle, "config.json"), JSON.stringify(config));
    await expect(runtime().create("bad", bundle)).rejects.toThrow(/no-such-source/);
    await runtime().remove("bad");
    expect(await runtime().list()).toEqual([]);
  });

  test("processes of a sandbox hold no file of the host beyond /dev/null", async () => {
    const pid = await runtime().create("files", bundleOf("files"));
    await runtime().start("files");
    while (!commandOf(pid).includes("/.sandlot/bin/init")) await Bun.sleep(5);
    const targets = (await run(["ls", "-l", `/proc/${pid}/fd`])).match(/-> (.*)$/gm) ?? [];
    expect(targets.filter((target) => !/\/dev\/null|anon_inode|signalfd/.test(target))).toEqual([]);
    await runtime().remove("files");
    await gone(pid);
    expect(existsSync(join(folder, "crun/files"))).toBe(false);
  });
});
