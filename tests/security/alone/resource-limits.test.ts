/** Resource limits: a sandbox uses up only its own share, and neither neighbours nor server notice. */
import { beforeAll, expect, test } from "bun:test";
import { CommandExitError, Sandbox } from "e2b";
import { timed } from "../../../src/base/testing/timed.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const ANSWER_MAX_MS = 2000;
const ANSWERS = 10;
const server = sharedServer();
let neighbour: Sandbox;
beforeAll(async () => {
  neighbour = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
});

/** Retries: a busy machine delays one response, an attack delays each. */
async function neighbourAnswers(): Promise<void> {
  let ms = Number.POSITIVE_INFINITY;
  for (let times = 0; times < ANSWERS && ms >= ANSWER_MAX_MS; times++) {
    const begun = performance.now();
    expect((await neighbour.commands.run("echo fine > ~/check && cat ~/check")).stdout).toBe("fine\n");
    ms = performance.now() - begun;
  }
  expect(ms).toBeLessThan(ANSWER_MAX_MS);
}

test("the disk has the template's size, is full when it is full, and can be used again after a removal", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  const size = await sandbox.commands.run("df --output=size -BM / | tail -1");
  expect(Number.parseInt(size.stdout, 10)).toBeGreaterThan(9_700);
  expect(Number.parseInt(size.stdout, 10)).toBeLessThanOrEqual(10_240);
  const fill = sandbox.commands.run("fallocate -l 11G ~/big", { timeoutMs: 60_000 });
  await expect(fill).rejects.toThrow(CommandExitError);
  const really = await sandbox.commands.run(
    "rm -f ~/big; fallocate -l $(($(df --output=avail -B1 / | tail -1) - 50000000)) ~/most; dd if=/dev/zero of=~/rest bs=1M 2>&1; true",
    {
      timeoutMs: 60_000,
    },
  );
  expect(really.stdout).toContain("No space left on device");
  expect(await refusalOf(sandbox.files.write("more", "x".repeat(4 << 20)))).toMatchObject({
    name: "NotEnoughSpaceError",
  });
  await neighbourAnswers();
  await sandbox.commands.run("rm -f ~/most ~/rest && echo room > ~/again");
  expect(await sandbox.files.read("again")).toBe("room\n");
  await sandbox.kill();
});

test("a process that exceeds the template's memory is killed, and the sandbox runs on", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  const bomb = sandbox.commands.run("python3 -c 'x = bytearray(3 << 30)'", { timeoutMs: 60_000 });
  expect(await refusalOf(bomb)).toMatchObject({ message: "signal: killed" });
  await neighbourAnswers();
  expect((await sandbox.commands.run("echo survived")).stdout).toBe("survived\n");
  await sandbox.kill();
});

timed("a fork bomb stays inside, and the guest still answers", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  try {
    const bomb = await sandbox.commands.run("bomb() { bomb | bomb & }; bomb; sleep 60", {
      background: true,
      timeoutMs: 0,
    });
    await neighbourAnswers();
    expect(await sandbox.isRunning()).toBe(true);
    await neighbourAnswers();
    expect(bomb.pid).toBeGreaterThan(0);
    expect(await sandbox.kill()).toBe(true);
    await neighbourAnswers();
  } finally {
    await sandbox.kill();
  }
});

test("bytes queued in TCP sockets are limited", async () => {
  const file = "/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes";
  const { stdout } = await neighbour.commands.run(`cat ${file} 2>/dev/null || echo v2`);
  // With cgroup v2 it counts as memory like any other.
  expect(["v2", String((1024 * 1024 * 1024) / 4)]).toContain(stdout.trim());
});

test("a sandbox uses only the processors of its template", async () => {
  const usage = await neighbour.commands.run(
    "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null; true",
    { timeoutMs: 30_000 },
  );
  expect(usage.stdout.trim().split(/\s+/)[0]).toBe("200000");
});
