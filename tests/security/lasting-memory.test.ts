/**
 * Memory that outlives the process that took it: files in memory, and segments, queues and semaphores of System V. It
 * is bounded, so that the kernel never has only the guest left to kill.
 */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { sharedServer } from "../support/shared-server.ts";
import { until } from "../support/until.ts";

const LIFE = { timeoutMs: 600_000 };
/** It takes a while to fill a gigabyte on a busy machine. */
const WITHIN_MS = 90_000;
const server = sharedServer();

/** Runs as root, which may write to each of these. Prints what it got of each. */
const TAKE_ALL = `
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
got = {}
def fill(folder):
  size = 0
  try:
    with open(folder + "/big", "wb") as file:
      while True: size += file.write(b"x" * (1 << 20))
  except OSError: pass
  got[folder] = size >> 20
def segments():
  size = 0
  while size < 2048:
    id = libc.shmget(0, 32 << 20, 0o1600)
    if id < 0: break
    ctypes.memset(libc.shmat(id, None, 0), 1, 32 << 20)
    size += 32
  got["segments"] = size
def queues():
  count = 0
  while count < 2000 and libc.msgget(0, 0o1600) >= 0: count += 1
  got["queues"] = count
def semaphores():
  count = 0
  while count < 100 and libc.semget(0, 32000, 0o1600) >= 0: count += 1
  got["semaphores"] = count * 32000
segments(); queues(); semaphores(); fill("/dev/shm"); fill("/run")
print(json.dumps(got))
`;

const create = () => Sandbox.create({ ...server().options, ...LIFE });
const asRoot = async (sandbox: Sandbox, command: string) =>
  (await sandbox.commands.run(command, { user: "root", timeoutMs: 120_000 })).stdout.trim();

// Guards against an IPC namespace without bounds: its segments take all memory and keep it, and the command is killed.
test("memory that outlives processes leaves enough for the guest and other programs", async () => {
  const sandbox = await create();
  const guest = await asRoot(sandbox, "echo $PPID");
  await sandbox.files.write("/tmp/take-all.py", TAKE_ALL);
  const { semaphores, ...got } = JSON.parse(await asRoot(sandbox, "python3 /tmp/take-all.py"));
  expect(got).toEqual({ "/dev/shm": expect.any(Number), "/run": expect.any(Number), segments: 128, queues: 64 });
  expect(got["/dev/shm"]).toBeLessThanOrEqual(256);
  expect(got["/run"]).toBeLessThanOrEqual(64);
  expect(semaphores).toBeLessThanOrEqual(262_144);
  expect(await asRoot(sandbox, "echo $PPID")).toBe(guest);
  expect(await asRoot(sandbox, "python3 -c 'print(len(bytearray(100 << 20)))'")).toBe(String(100 << 20));
  await sandbox.kill();
});

// Guards against the same: 18446744073692774399 32000 32000 1024000000 500 32000 and 3 million inodes.
test("a resumed sandbox has the same bounds", async () => {
  const sandbox = await create();
  await sandbox.pause();
  await sandbox.connect(LIFE);
  const settings = "cd /proc/sys/kernel && echo $(cat shmall msgmni sem)";
  const pages = (128 * 1024 * 1024) / Number(await asRoot(sandbox, "getconf PAGESIZE"));
  expect(await asRoot(sandbox, settings)).toBe(`${pages} 64 32000 262144 500 1024`);
  const inodes = await asRoot(sandbox, "df --output=itotal /dev /dev/shm /run");
  expect(inodes.match(/\d+/g)).toEqual(["1024", "65536", "32768"]);
  await sandbox.kill();
});

/** By root, whose own command may be ended before it has. */
const endSmallOnes = (sandbox: Sandbox) =>
  asRoot(sandbox, "pkill -KILL -f [s]mall-ones; pgrep -f [s]mall-ones > /dev/null || echo none").catch(() => undefined);

/** Each is smaller than the guest, and has its score. */
const SMALL_ONES = `
import os, time
for _ in range(500):
  if os.fork() == 0:
    open("/proc/self/oom_score_adj", "w").write("100")
    x = bytearray(4 << 20)
    time.sleep(600)
print("all", flush=True)
time.sleep(600)`;

// Guards against a keeper that only starts the guest again: it is then killed again and again.
test("a guest killed for lack of memory restarts, even if all processes have its OOM score", async () => {
  const sandbox = await create();
  const guest = await asRoot(sandbox, "echo $PPID");
  await sandbox.files.write("/tmp/small-ones.py", SMALL_ONES);
  const bomb = await sandbox.commands.run("python3 /tmp/small-ones.py", { background: true, timeoutMs: 0 });
  bomb.wait().catch(() => undefined);
  // The kernel now kills commands first; the guest itself answers.
  const guestNow = () => asRoot(sandbox, "echo $PPID").catch(() => undefined);
  let later: string | undefined;
  await until(
    "another guest answers",
    async () => {
      later = await guestNow();
      return later !== undefined && later !== guest;
    },
    WITHIN_MS,
  );
  await until("the attack is over", async () => (await endSmallOnes(sandbox)) === "none", WITHIN_MS);
  expect(await guestNow()).toBe(later);
  await sandbox.kill();
});
