/**
 * The contract of the Runtime interface, for every isolation runtime; a new one joins the tables below. EXCEPTIONS
 * lists what an isolation runtime cannot do, with the reason; an exception whose test passes fails this file.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { untilTrue } from "../../../src/base/testing/until.ts";
import { Fault } from "../../../src/contract/fault.ts";
import { BASE_TEMPLATE } from "../../../src/contract/management/base-template.ts";
import { CONTROL_SECRET_FILE } from "../../../src/contract/runtime/guest-control.ts";
import { RUNTIME_PORT } from "../../../src/contract/runtime/version.ts";
import { RUNTIME_NAMES, type RuntimeName } from "../../../src/contract/runtime-name.ts";
import { imageFolder } from "../../../src/images/image-folder.ts";
import { CrunRuntime } from "../../../src/sandbox/runtime/crun/crun-runtime.ts";
import { RunscRuntime } from "../../../src/sandbox/runtime/runsc/runsc-runtime.ts";
import type {
  CheckpointRequest,
  CreatedContainer,
  NewSandbox,
  RestoreRequest,
  Runtime,
} from "../../../src/sandbox/runtime/runtime.ts";
import { BASE_IMAGE } from "../../../src/setup/base-image.ts";
import { guestFolder } from "../../../src/setup/guest-folder.ts";
import { freeze, freezerOf, isFrozen, processesBelow } from "../../../src/system/cgroup/freezer.ts";
import { removeCgroups } from "../../../src/system/cgroup/removal.ts";
import { attempt, run } from "../../../src/system/command.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { HOST_ID_FIRST, SHARED_IDS } from "../../../src/system/id-range.ts";
import { Mounts } from "../../../src/system/mount/mounts.ts";
import { startTicks } from "../../../src/system/start-ticks.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";
import { CACHE } from "../../support/cache.ts";
import { newDataFolder } from "../../support/server.ts";
import { until } from "../../support/until.ts";

const MIB = 1024 * 1024;
const toolbox = new Toolbox(CACHE);
const mounts = new Mounts();
const data = new DataFolder(newDataFolder("runtime"));
// Sandbox roots must be reachable for their mapped root, and in memory is fine for so little.
const folder = join(data.runFolder, "contract");

interface RuntimeUnderTest {
  open(): Promise<Runtime>;
  /** Whether the first process of the sandbox, which is this one on the machine, has begun. */
  hasBegun(id: string, pid: number): Promise<boolean>;
  listens(id: string, pid: number): Promise<boolean>;
  /** Whether its processes use the processor, or could. */
  goesOn(id: string): Promise<boolean>;
}

const subjects: Record<RuntimeName, RuntimeUnderTest> = {
  crun: {
    open: () => CrunRuntime.open(toolbox, data, mounts),
    hasBegun: async (_id, pid) => commandOf(pid).includes("/.sandlot/bin/init"),
    listens: async (_id, pid) => isListening(pid),
    goesOn: async (id) => (await processStates(id)).every((status) => !/^State:\s+[tT]/m.test(status)),
  },
  runsc: {
    open: () => RunscRuntime.open(toolbox.runsc, data),
    hasBegun: async (id) => (await runsc(["ps", id])).includes("init"),
    // The guest is the third process and listens a moment after it appears, which is invisible from outside.
    listens: async (id) => (await runsc(["ps", id])).includes("guest"),
    goesOn: async (id) => JSON.parse(await runsc(["state", id])).status === "running",
  },
};

/** By the names of the tests. */
const EXCEPTIONS: Readonly<Partial<Record<RuntimeName, Readonly<Record<string, string>>>>> = {
  runsc: {
    "processes of a sandbox hold no file of the host beyond /dev/null":
      "its kernel is a program of the machine, which has the sandbox's files open",
    "a restored sandbox has the checkpoint's processes and memory, in its own network":
      "the test looks into the sandbox through its namespaces, in which there is nothing: the kernel is in another " +
      "program. tests/functional/isolation looks from inside",
  },
};

function runsc(args: string[]): Promise<string> {
  return attempt([toolbox.runsc, "--root", data.runscFolder, ...args]).then(({ stdout }) => stdout);
}

async function processStates(id: string): Promise<string[]> {
  const processes = await processesBelow(freezerOf(cgroupOf(id)));
  return processes.flatMap((pid) => {
    try {
      return readFileSync(`/proc/${pid}/status`, "utf8");
    } catch {
      // It ended while we looked.
      return [];
    }
  });
}

beforeAll(async () => {
  data.makeRunFolder();
  for (const name of ["", "layer", "root"]) mkdirSync(join(folder, name), { recursive: true, mode: 0o711 });
  await run(["mount", "-t", "tmpfs", "-o", "mode=711", "none", join(folder, "layer")]);
  for (const name of ["upper", "work"]) mkdirSync(join(folder, "layer", name), { mode: 0o755 });
  chownSync(join(folder, "layer/upper"), HOST_ID_FIRST, HOST_ID_FIRST);
  const layers = `lowerdir=${imageFolder(CACHE, BASE_IMAGE)},upperdir=${folder}/layer/upper,workdir=${folder}/layer/work`;
  await run(["mount", "-t", "overlay", "overlay", "-o", `${layers},index=on,nfs_export=on`, join(folder, "root")]);
});
afterAll(async () => {
  mounts.close();
  await removeCgroups(data.cgroup);
  for (const name of ["root", "layer"]) await run(["umount", "--lazy", join(folder, name)]);
  for (const path of [data.runFolder, data.path]) rmSync(path, { recursive: true, force: true });
});

function cgroupOf(id: string): string {
  return `${data.cgroup}/${id}`;
}

function sandbox(id: string): NewSandbox {
  const own = join(folder, id);
  mkdirSync(own, { recursive: true, mode: 0o711 });
  const bootIdFile = join(own, "boot-id");
  writeFileSync(bootIdFile, `${crypto.randomUUID()}\n`, { mode: 0o444 });
  const controlSecretFile = join(own, "control-secret");
  writeFileSync(controlSecretFile, crypto.randomUUID());
  return {
    id,
    folder: own,
    root: join(folder, "root"),
    cgroup: cgroupOf(id),
    ids: SHARED_IDS,
    size: { cpuCount: BASE_TEMPLATE.cpuCount, memoryMB: BASE_TEMPLATE.memoryMB, processors: undefined },
    hostname: "e2b.local",
    guestFolder: guestFolder(toolbox),
    meminfoFile: undefined,
    bootIdFile,
    volumes: [],
    controlSecretFile,
    copy: false,
    openFilesMax: 1024,
    userLimits: [],
  };
}

/** A checkpoint of memory alone, with ample bounds. */
function checkpointOf({ id, cgroup, folder: own }: NewSandbox, { pid, mounts }: CreatedContainer): CheckpointRequest {
  const images = mkdtempSync(join(folder, `${id}-images-`));
  const bounds = { maxBytes: 1024 * MIB, maxMs: 30_000, requireRoom: () => undefined };
  return { id, pid, cgroup, folder: own, images, mounts, bounds };
}

/** A restore of such a checkpoint, without a network. */
function restoreOf({ size, root }: NewSandbox, request: CheckpointRequest): RestoreRequest {
  return { ...request, ids: SHARED_IDS, size, root, prepared: Promise.resolve(), plug: async () => undefined };
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
}

/** As the network of the sandbox shows. */
function isListening(pid: number): boolean {
  const port = RUNTIME_PORT.toString(16).toUpperCase();
  const sockets = ["tcp", "tcp6"].flatMap((name) => readFileSync(`/proc/${pid}/net/${name}`, "utf8").split("\n"));
  return sockets.some((line) => line.includes(`:${port} `) && line.includes(" 0A "));
}

async function gone(pid: number): Promise<void> {
  await untilTrue(() => startTicks(pid) === undefined);
}

describe.each(RUNTIME_NAMES)("%s", (name) => {
  const subject = subjects[name];
  let runtime: Runtime;
  beforeAll(async () => {
    runtime = await subject.open();
  });
  // Of a promise that is not kept.
  afterEach(async () => {
    for (const id of await runtime.list()) await runtime.remove(id);
  });

  /** One of the promises: kept, or named above. */
  function promise(title: string, isKept: () => Promise<void> | void): void {
    const reason = EXCEPTIONS[name]?.[title];
    if (reason === undefined) test(title, isKept);
    else test.failing(`${title} (not kept: ${reason})`, isKept);
  }

  async function goesOn(cgroup: string): Promise<boolean> {
    const id = cgroup.slice(cgroup.lastIndexOf("/") + 1);
    return !isFrozen(cgroup) && (await processStates(id)).length > 0 && (await subject.goesOn(id));
  }

  async function running(id: string): Promise<NewSandbox & CreatedContainer> {
    const request = sandbox(id);
    const made = await runtime.create(request);
    await runtime.start(id, made.pid);
    await until("the guest listens", () => subject.listens(id, made.pid));
    return { ...request, ...made };
  }

  async function write(request: CheckpointRequest): Promise<void> {
    const stopped = await runtime.checkpoint(request);
    await stopped.write();
    await stopped.release();
  }

  describe("create and start", () => {
    promise("create isolates and runs nothing of the sandbox until start", async () => {
      const { pid, mounts } = await runtime.create(sandbox("one"));
      expect(startTicks(pid)).toBeDefined();
      expect(await subject.hasBegun("one", pid)).toBe(false);
      expect(readFileSync(`/proc/${pid}/uid_map`, "utf8").trim().split(/\s+/)).toEqual(["0", "1900000000", "65536"]);
      expect(mounts).toContainEqual({ inside: "/.sandlot", outside: guestFolder(toolbox) });
      await runtime.start("one", pid);
      await until("it has begun", () => subject.hasBegun("one", pid));
      expect(await runtime.list()).toEqual(["one"]);
      await runtime.remove("one");
      await gone(pid);
      expect(await runtime.list()).toEqual([]);
    });

    promise("many sandboxes are made at once, even before their parent cgroup exists", async () => {
      await removeCgroups(data.cgroup);
      const ids = ["first", "second", "third", "fourth"];
      const made = await Promise.all(ids.map((id) => runtime.create(sandbox(id))));
      expect((await runtime.list()).toSorted()).toEqual(ids.toSorted());
      await Promise.all(ids.map((id) => runtime.remove(id)));
      for (const { pid } of made) await gone(pid);
    });

    promise("a sandbox that cannot be made is an error with the reason, and leaves no process", async () => {
      const bad = { ...sandbox("bad"), controlSecretFile: "/no-such-source" };
      await expect(runtime.create(bad)).rejects.toThrow(/no-such-source/);
      await runtime.remove("bad");
      expect(await runtime.list()).toEqual([]);
    });

    promise("a sandbox that ends before or during its start is an error", async () => {
      const { pid } = await runtime.create(sandbox("early"));
      const starting = runtime.start("early", pid);
      process.kill(pid, "SIGKILL");
      await Promise.allSettled([starting]);
      await gone(pid);
      await expect(runtime.start("early", pid)).rejects.toMatchObject({ status: 500 });
      await runtime.remove("early");
      expect(await runtime.list()).toEqual([]);
    });

    // Guards against the server's score in sandboxes.
    promise("processes of a sandbox do not inherit the server's OOM score", async () => {
      const score = (pid: number | "self") => `/proc/${pid}/oom_score_adj`;
      const own = readFileSync(score("self"), "utf8");
      // Any other than the usual one; not everywhere may it be a lower one.
      writeFileSync(score("self"), "300");
      try {
        const { pid } = await runtime.create(sandbox("scored"));
        expect(readFileSync(score(pid), "utf8").trim()).toBe("100");
      } finally {
        writeFileSync(score("self"), own);
      }
      await runtime.remove("scored");
    });

    promise("processes of a sandbox hold no file of the host beyond /dev/null", async () => {
      const { pid } = await running("files");
      const targets = (await run(["ls", "-l", `/proc/${pid}/fd`])).match(/-> (.*)$/gm) ?? [];
      expect(targets.filter((target) => !/\/dev\/null|anon_inode|signalfd/.test(target))).toEqual([]);
      await runtime.remove("files");
      await gone(pid);
      expect(existsSync(freezerOf(cgroupOf("files")))).toBe(false);
    });
  });

  describe("remove", () => {
    promise("ends a sandbox that was never started or whose process died, and accepts unknown ids", async () => {
      const idle = await runtime.create(sandbox("idle"));
      await runtime.remove("idle");
      await gone(idle.pid);
      const dead = await runtime.create(sandbox("dead"));
      await runtime.start("dead", dead.pid);
      process.kill(dead.pid, "SIGKILL");
      await gone(dead.pid);
      await runtime.remove("dead");
      await runtime.remove("dead");
      await runtime.remove("never-was");
      expect(await runtime.list()).toEqual([]);
    });

    promise("ends a frozen sandbox", async () => {
      const { pid, cgroup } = await running("still");
      await freeze(cgroup);
      await runtime.remove("still");
      await gone(pid);
      expect(await runtime.list()).toEqual([]);
    });
  });

  describe("checkpoint and restore", () => {
    promise("a checkpoint leaves the sandbox frozen, and it can continue from there", async () => {
      const { pid, cgroup, ...made } = await running("snapshot");
      const ticks = startTicks(pid);
      expect(await runtime.imageBytes(cgroup, 1024 * MIB)).toBeGreaterThan(MIB);
      const processes = join(freezerOf(cgroup), "cgroup.procs");
      const request = checkpointOf({ ...made, cgroup }, { ...made, pid });
      const stopped = await runtime.checkpoint(request);
      await stopped.write();
      expect(readFileSync(processes, "utf8").trim().split("\n")).toContain(String(pid));
      await stopped.release();
      expect(isFrozen(cgroup)).toBe(true);
      await runtime.unfreeze("snapshot", cgroup);
      expect(await goesOn(cgroup)).toBe(true);
      expect(startTicks(pid)).toBe(ticks);
      await runtime.remove("snapshot");
    });

    promise("a restored sandbox has the checkpoint's processes and memory, in its own network", async () => {
      const written = await running("memory");
      const inMemory = "/dev/shm/word";
      const word = crypto.randomUUID();
      await run(["nsenter", "-t", String(written.pid), "-a", "--", "/bin/sh", "-c", `printf ${word} > ${inMemory}`]);
      const processes = (await processesBelow(freezerOf(written.cgroup))).length;
      const request = checkpointOf(written, written);
      await write(request);
      await runtime.remove("memory");
      await gone(written.pid);
      writeFileSync(written.controlSecretFile, "another");

      const { pid } = await runtime.restore({
        ...restoreOf(written, request),
        plug: async (namespace) =>
          void (await run(["nsenter", `--net=${namespace}`, "--", "ip", "link", "set", "lo", "up"])),
      });
      expect(readFileSync(`/proc/${pid}/root${inMemory}`, "utf8")).toBe(word);
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
      expect(environment).toContain(`SANDLOT_CPU_COUNT=${written.size.cpuCount}`);
      // The sandbox sees the machine's file, with its current content.
      expect(readFileSync(`/proc/${pid}/root${CONTROL_SECRET_FILE}`, "utf8")).toBe("another");
      const restored = async () => (await processesBelow(freezerOf(written.cgroup))).length;
      await until("there are as many, and nobody who restored them", async () => (await restored()) === processes);
      expect(await goesOn(written.cgroup)).toBe(true);
      const links = await run(["nsenter", `--net=/proc/${pid}/ns/net`, "--", "ip", "-brief", "link", "show", "lo"]);
      expect(links).toContain("UP");
      expect(await runtime.list()).toEqual(["memory"]);

      await runtime.remove("memory");
      await gone(pid);
      expect(await runtime.list()).toEqual([]);
    });

    promise("one image is restored any number of times, also after the first copy ended", async () => {
      const written = await running("again");
      const request = checkpointOf(written, written);
      await write(request);
      await runtime.remove("again");
      for (let times = 0; times < 2; times++) {
        const { pid } = await runtime.restore(restoreOf(written, request));
        expect(startTicks(pid)).toBeDefined();
        await runtime.remove("again");
        await gone(pid);
      }
    });

    promise("a checkpoint that is undone at any step leaves the sandbox running", async () => {
      const { pid, cgroup, ...made } = await running("refused");
      const before = await processesBelow(freezerOf(cgroup));
      for (const steps of [[], ["write"], ["write", "release"]] as const) {
        const stopped = await runtime.checkpoint(checkpointOf({ ...made, cgroup }, { ...made, pid }));
        for (const step of steps) await stopped[step]();
        await stopped.undo();
        expect(await goesOn(cgroup)).toBe(true);
      }
      const after = await processesBelow(freezerOf(cgroup));
      // An isolation runtime may have processes of its own.
      if (runtime.showsProcesses) expect(after).toEqual(before);
      else expect(after).toContain(pid);
      await runtime.remove("refused");
    });

    promise("more memory than an image may hold is rejected before the sandbox is stopped", async () => {
      const { cgroup } = await running("large");
      await expect(runtime.imageBytes(cgroup, 1)).rejects.toMatchObject({ status: 422 });
      expect(await goesOn(cgroup)).toBe(true);
      await runtime.remove("large");
    });

    promise("a restore that fails leaves no process, and the image can be restored afterwards", async () => {
      const written = await running("half");
      const request = checkpointOf(written, written);
      await write(request);
      await runtime.remove("half");
      const restore = restoreOf(written, request);
      await expect(
        runtime.restore({ ...restore, plug: () => Promise.reject(new Fault(500, "no plug")) }),
      ).rejects.toThrow(/no plug/);
      await runtime.remove("half");
      expect(await runtime.list()).toEqual([]);
      const { pid } = await runtime.restore(restore);
      expect(startTicks(pid)).toBeDefined();
      await runtime.remove("half");
      await gone(pid);
    });

    promise("an image fits its own machine, and one of unknown origin fits none", () => {
      const facts = JSON.parse(JSON.stringify(runtime.imageFacts));
      expect(runtime.mismatch(facts)).toBeUndefined();
      expect(runtime.mismatch({})).toBeString();
      expect(runtime.holdsConnections([])).toBe(false);
    });
  });

  describe("after a server was killed", () => {
    promise("sandboxes run on, and the next server waits only for those being checkpointed", async () => {
      const { pid, cgroup } = await running("survivor");
      const next = await subject.open();
      await next.recover();
      await next.untilWritten("survivor");
      expect(startTicks(pid)).toBeDefined();
      expect(await goesOn(cgroup)).toBe(true);
      expect(await next.list()).toEqual(["survivor"]);
      await next.remove("survivor");
      await gone(pid);
    });
  });

  promise("nothing is left below the cgroup of the server when it has ended", async () => {
    await runtime.close?.();
    const left = readdirSync(freezerOf(data.cgroup), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(left.map((entry) => entry.name)).toEqual([]);
  });
});
