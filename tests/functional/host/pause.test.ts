/** The steps of a pause and a resume on the real machine. What they keep: workloads.test.ts. */
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../../../src/base/system-code.ts";
import type { Fault } from "../../../src/contract/fault.ts";
import { CONTROL_SECRET_FILE } from "../../../src/contract/runtime/guest-control.ts";
import { STALL_CHECK_MS } from "../../../src/sandbox/runtime/crun/stall-watch.ts";
import { freezerOf } from "../../../src/system/cgroup/freezer.ts";
import { attempt } from "../../../src/system/command.ts";
import { CACHE } from "../../support/cache.ts";
import { NOTHING, settledCensus } from "../../support/census.ts";
import { shell, startPython } from "../../support/inside.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";
import { askService, SERVICE_PORT, startService } from "../../support/memory-service.ts";
import { readySandbox } from "../../support/ready-sandbox.ts";
import { until } from "../../support/until.ts";
import { isWaitingCriu } from "../../support/waiting-criu.ts";

const here = new MachineOfFile("pause");

async function pauseAndResume(id: string, options: { memory: boolean } = { memory: true }): Promise<void> {
  const name = `test-${crypto.randomUUID()}`;
  await here.machine.pause(id, name, { memory: true });
  await here.machine.resume({ ...request, id, checkpoint: name, ...options });
  await here.machine.removeCheckpoint(name);
}

function waitingCrius(): number[] {
  const folder = freezerOf(here.data.cgroup);
  const dumps = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".dump")) : [];
  const members = dumps.flatMap((name) => membersOf(join(folder, name)));
  return members.map(Number).filter(isWaitingCriu);
}

/** Empty for a cgroup that is gone: CRIU's cgroup is removed when CRIU has ended. */
function membersOf(cgroup: string): string[] {
  try {
    return readFileSync(join(cgroup, "cgroup.procs"), "utf8").split("\n").filter(Boolean);
  } catch (error) {
    if (["ENOENT", "ENODEV"].includes(systemCode(error))) return [];
    throw error;
  }
}

async function untilCriuWaits(): Promise<number[]> {
  let waiting: number[] = [];
  await until("a CRIU waits", () => {
    waiting = waitingCrius();
    return waiting.length > 0;
  });
  return waiting;
}

describe("while it is paused", () => {
  test("only the checkpoint of a sandbox exists, and it survives the loss of the run folder", async () => {
    const { id } = await here.machine.create(request);
    const word = await startService(here.machine, id, "word = os.urandom(16).hex()", "return word");
    await here.machine.pause(id, "reboot", { memory: true });
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);

    await here.teardown({ keepData: true });
    await here.open();
    const found = await here.machine.adopt({ sandboxes: [id], checkpoints: ["reboot"] });
    expect(found).toEqual({ sandboxes: [], checkpoints: ["reboot"] });
    await here.machine.resume({ ...request, id, checkpoint: "reboot", memory: true });
    expect(await askService(here.machine, id)).toBe(word);
    await here.machine.destroy(id);
    await here.machine.removeCheckpoint("reboot");
  });

  test("its monotonic clock stops, and continues from there", async () => {
    await here.withSandbox(async (id) => {
      await startService(here.machine, id, "", "return time.monotonic()");
      const began = performance.now();
      const before = Number(await askService(here.machine, id));
      await here.machine.pause(id, "clock", { memory: true });
      const paused = performance.now();
      await Bun.sleep(1_000);
      const pausedMs = performance.now() - paused;
      await here.machine.resume({ ...request, id, checkpoint: "clock", memory: true });
      const after = Number(await askService(here.machine, id));
      expect(after).toBeGreaterThan(before);
      // All that passed for us but the pause, and no more.
      expect((after - before) * 1000).toBeLessThan(performance.now() - began - pausedMs);
      await here.machine.removeCheckpoint("clock");
    });
  });

  test("it can be resumed on a machine with an earlier monotonic clock, as after a reboot", async () => {
    const { id } = await here.machine.create(request);
    const age = "return time.monotonic() - began";
    const before = Number(await startService(here.machine, id, "began = time.monotonic()", age));
    await here.machine.pause(id, "behind", { memory: true });
    await here.machine.close();
    // The machine has been up for longer than this in any test run that got here.
    const set = ["unshare", "--time", "--fork", "--monotonic", "-20", "--boottime", "-20", "--"];
    const program = join(import.meta.dir, "../../support/programs/resume-program.ts");
    const resumption = [process.execPath, program, here.dataFolder, CACHE, id, "behind", String(SERVICE_PORT)];
    const child = await attempt([...set, ...resumption], { timeoutMs: 60_000 });
    expect({ exitCode: child.exitCode, stderr: child.stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(Number(child.stdout)).toBeGreaterThanOrEqual(before);
    await here.open();
    await here.machine.adopt({ sandboxes: [], checkpoints: [] });
  });
});

test("a CRIU process waits for the next pause, is replaced when killed, and ends with the server", async () => {
  await here.withSandbox(async (id) => {
    const word = await startService(here.machine, id, "word = os.urandom(16).hex()", "return word");
    await pauseAndResume(id);
    const [waiting = 0, ...others] = await untilCriuWaits();
    expect(others).toEqual([]);
    await pauseAndResume(id);
    const [next = 0] = await untilCriuWaits();
    expect(next).not.toBe(waiting);
    process.kill(next, "SIGKILL");
    await pauseAndResume(id);
    await untilCriuWaits();
    expect(await askService(here.machine, id)).toBe(word);
  });
  await here.machine.close();
  expect(waitingCrius()).toEqual([]);
  await here.open();
  await here.machine.adopt({ sandboxes: [], checkpoints: [] });
});

describe("a resume", () => {
  // Guards against ending the restored processes because CRIU has ended before its success was noticed.
  test("succeeds in a server with a blocked event loop", async () => {
    const { id } = await here.machine.create(request);
    await here.machine.pause(id, "late", { memory: true });
    const busy = setInterval(() => Bun.sleepSync(STALL_CHECK_MS + 100), 20);
    try {
      await here.machine.resume({ ...request, id, checkpoint: "late", memory: true });
    } finally {
      clearInterval(busy);
    }
    // Long enough for a late check to end the sandbox.
    await Bun.sleep(100);
    expect(await shell(here.data, id, "echo here")).toBe("here");
    await here.machine.removeCheckpoint("late");
    await here.machine.destroy(id);
  });

  test("is rejected before any change if the checkpoint does not fit; a resume without memory works", async () => {
    const { id } = await here.machine.create(request);
    await shell(here.data, id, "echo kept > /home/file");
    await here.machine.pause(id, "mismatch", { memory: true });
    const manifest = join(here.dataFolder, "disks/checkpoints/mismatch/manifest.json");
    const written = readFileSync(manifest, "utf8");
    const resume = (memory: boolean) => here.machine.resume({ ...request, id, checkpoint: "mismatch", memory });
    const changes: [Record<string, unknown>, RegExp][] = [
      [{ architecture: "pdp11" }, /written on pdp11/],
      [{ criu: "99.0" }, /CRIU 99\.0/],
      [{ kernel: "99.1.0" }, /Linux 99\.1\.0/],
      [{ cpuFeatures: ["warp"] }, /lacks warp/],
      [{ guestFolder: "/nowhere/guest" }, /\/nowhere\/guest/],
    ];
    for (const [change, reason] of changes) {
      const parsed = JSON.parse(written);
      writeFileSync(manifest, JSON.stringify({ ...parsed, memory: { ...parsed.memory, ...change } }));
      const refused = await resume(true).then(undefined, (fault: Fault) => fault);
      expect([change, refused?.status, String(refused)]).toEqual([change, 422, expect.stringMatching(reason)]);
      expect(refused?.message).toMatch(reason);
      expect(refused?.message).toContain("memory: false");
      expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
    }
    await resume(false);
    expect(await shell(here.data, id, "cat /home/file")).toBe("kept");
    await here.machine.destroy(id);
    writeFileSync(manifest, written);
    await resume(true);
    await here.machine.destroy(id);
    await here.machine.removeCheckpoint("mismatch");
  });

  test("of a damaged checkpoint is rejected", async () => {
    const { id } = await here.machine.create(request);
    await here.machine.pause(id, "decay", { memory: true });
    const pages = join(here.dataFolder, "disks/checkpoints/decay/memory/pages-3.img");
    const bytes = readFileSync(pages);
    bytes[5000] = (bytes[5000] ?? 0) ^ 1;
    writeFileSync(pages, bytes);
    // Another server: this one has just written it.
    await here.machine.close();
    await here.open();
    const refused = here.machine.resume({ ...request, id, checkpoint: "decay", memory: true });
    await expect(refused).rejects.toMatchObject({ status: 422, message: expect.stringContaining("damaged on disk") });
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
    await here.machine.removeCheckpoint("decay");
  });
});

// CRIU only accepts files of unchanged length: a ready sandbox's guest is shown its settings behind the secret.
test("a process of a ready sandbox with the secret open survives a pause", async () => {
  const ready = await readySandbox(here);
  const { id } = await here.machine.create({ ...request, egress: "open" });
  expect(id).toBe(ready);
  await here.machine.keepReady([]);
  await startPython(here.machine, id, `secret = open("${CONTROL_SECRET_FILE}"); import time; time.sleep(600)`);
  const holders = () =>
    shell(here.data, id, `ls -l /proc/[0-9]*/fd 2> /dev/null | grep -c ${CONTROL_SECRET_FILE} || true`);
  await until("it is open", async () => (await holders()) === "1");
  await pauseAndResume(id);
  expect(await holders()).toBe("1");
  await here.machine.destroy(id);
});
