/**
 * The guest beside processes that take all resources of a sandbox: it keeps answering through the edge, the kernel does
 * not kill it, and root can end the attack from inside, after which everything works as before.
 */
import { beforeAll, expect } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { timed } from "../../../src/base/testing/timed.ts";
import { SANDBOX_PIDS_MAX } from "../../../src/contract/runtime/limits.ts";
import { SANDBOX_PIDS_FOR_ROOT } from "../../../src/guest/process/priority.ts";
import { guestFolder } from "../../../src/setup/guest-folder.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";
import { CACHE } from "../../support/cache.ts";
import { serverOfFile } from "../../support/server-of-file.ts";
import { refusalOf, until } from "../../support/until.ts";

const ANSWER_MAX_MS = 1_000;
const WATCHED_MS = LONG ? 4_000 : 1_000;
/** Number of tries: a busy machine delays one of them, an attack delays each. */
const WATCHES = 3;
const server = serverOfFile("attacked-guest", { SANDLOT_READY: "0" });

const newSandbox = () => Sandbox.create({ ...server().options, timeoutMs: 600_000 });
const asRoot = async (sandbox: Sandbox, script: string) =>
  (await sandbox.commands.run(script, { user: "root", timeoutMs: 20_000 })).stdout.trim();
/** The guest is the parent of root's commands. */
const guestPid = (sandbox: Sandbox) => asRoot(sandbox, "echo $PPID");

/**
 * Uses little memory itself: when memory runs out, the kernel kills the largest process first, and beside many small
 * ones that would be an interpreter.
 */
const END_ALL_OF_USER = "setpriv --reuid=user --regid=user --clear-groups sh -c 'kill -KILL -1'";

/** The status is undefined after a timeout. */
async function health(host: string): Promise<{ status: number | undefined; ms: number }> {
  const begun = performance.now();
  const request = fetch(`${server().url}/health`, {
    headers: { host },
    signal: AbortSignal.timeout(10 * ANSWER_MAX_MS),
  });
  const response = await request.catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "TimeoutError") return undefined;
    throw error;
  });
  return { status: response?.status, ms: performance.now() - begun };
}

let neighbour: Sandbox;
beforeAll(async () => {
  neighbour = await newSandbox();
});

/**
 * Polls the health for a while and returns the times of late responses. Subtracts the response time of an idle sandbox
 * at the same moment, which is due to the machine, not to the attack.
 */
async function watchHealth(sandbox: Sandbox): Promise<number[]> {
  const deadline = performance.now() + WATCHED_MS;
  const requests: { statuses: (number | undefined)[]; lateMs: number }[] = [];
  while (performance.now() < deadline) {
    const [{ status, ms }, quiet] = await Promise.all([
      health(`49983-${sandbox.sandboxId}.anything.test`),
      health(`49983-${neighbour.sandboxId}.anything.test`),
    ]);
    // No response from one of them is due to the attack; no response from both is due to the machine.
    const statuses = [status, quiet.status];
    if (statuses.some((each) => each !== undefined)) requests.push({ statuses, lateMs: ms - quiet.ms });
    await Bun.sleep(20);
  }
  expect(requests.filter(({ statuses }) => statuses.some((each) => each !== 204))).toEqual([]);
  return requests.map(({ lateMs }) => lateMs).filter((ms) => ms > ANSWER_MAX_MS);
}

/** Drops the guest's pages from the page cache, as after a machine start; pages that a process has mapped stay. */
function forgetGuestPages(): void {
  const folder = guestFolder(new Toolbox(CACHE));
  for (const part of ["bin", "lib"]) {
    for (const name of readdirSync(join(folder, part))) {
      Bun.spawnSync(["dd", `if=${join(folder, part, name)}`, "iflag=nocache", "count=0"]);
    }
  }
}

async function expectPrompt(sandbox: Sandbox): Promise<void> {
  let late = await watchHealth(sandbox);
  for (let watches = 1; late.length > 0 && watches < WATCHES; watches++) late = await watchHealth(sandbox);
  expect(late).toEqual([]);
}

/** Ends everything of the user's and tells whether the last of it is gone: until then it takes up room. */
async function hasEnded(sandbox: Sandbox): Promise<boolean> {
  const none = "pgrep --uid user > /dev/null; test $? != 1 || echo none";
  return (await asRoot(sandbox, `${END_ALL_OF_USER}; ${none}`)) === "none";
}

/**
 * Runs the attack; afterwards the sandbox works again, with the same guest. The sandbox is always removed, so that a
 * retry meets no other attack.
 */
function attacked(name: string, attack: (sandbox: Sandbox) => Promise<void>): void {
  timed(name, async () => {
    forgetGuestPages();
    const sandbox = await newSandbox();
    try {
      const guest = await guestPid(sandbox);
      await attack(sandbox);
      expect((await sandbox.commands.run("echo $((20 + 22)) | cat > again; cat again")).stdout).toBe("42\n");
      expect(await guestPid(sandbox)).toBe(guest);
    } finally {
      await sandbox.kill();
    }
  });
}

// Guards against missing process slots (root cannot start anything), and users 0 and 10 steps behind the guest (1.7 s
// and 1.6 s).
attacked("a fork bomb", async (sandbox) => {
  await sandbox.commands.run("bomb() { bomb | bomb & }; bomb; sleep 60", { background: true, timeoutMs: 0 });
  await expectPrompt(sandbox);
  const count = "cat /sys/fs/cgroup/pids/pids.current /sys/fs/cgroup/pids.current 2>/dev/null; true";
  await until(
    "the bomb has all places but root's",
    async () => Number(await asRoot(sandbox, count)) > SANDBOX_PIDS_MAX - 2 * SANDBOX_PIDS_FOR_ROOT,
  );
  await expectPrompt(sandbox);
  await asRoot(sandbox, END_ALL_OF_USER);
  await until("the bomb is gone", () => hasEnded(sandbox));
});

// Guards against invalid_argument with the words of posix_spawn.
attacked("a fork bomb of root's: commands are refused for what they are refused for", async (sandbox) => {
  // The children live as long as their parent: they wait for the end of a pipe that only the parent holds open.
  const script =
    "import os, time\nr, w = os.pipe()\nwhile True:\n try:\n  if os.fork() == 0: os.close(w); os.read(r, 1); os._exit(0)\n except OSError: time.sleep(0.01)";
  await sandbox.files.write("/tmp/bomb.py", script);
  const bomb = await sandbox.commands.run("exec python3 /tmp/bomb.py", {
    user: "root",
    background: true,
    timeoutMs: 0,
  });
  bomb.wait().catch(() => undefined);
  await until("there is no place left", async () => {
    const result = await sandbox.commands.run("true", { timeoutMs: 5_000 }).catch((error: Error) => error);
    return result instanceof Error && result.message.includes("room for another process");
  });
  await expectPrompt(sandbox);
  expect(await bomb.kill()).toBe(true);
  await until("the last of its children is gone", async () => {
    const result = await sandbox.commands.run("ls | cat", { timeoutMs: 5_000 }).catch((error: Error) => error);
    return !(result instanceof Error);
  });
});

// Guards against a guest that has the users' score while it starts a command: it is killed, being the largest. Also
// against charging the guest's pages to the sandbox that first ran it: it lost them, and responses took up to 4.1 s.
const MEMORY_BOMBS: readonly (readonly [what: string, script: string])[] = [
  [
    "many small processes",
    "import os, time\nfor _ in range(1500):\n if os.fork() == 0: x = bytearray(2 << 20); time.sleep(60)\ntime.sleep(60)",
  ],
  [
    "memory and files",
    "import os\nfor _ in range(4): os.fork()\nwhile True:\n open(f'of-{os.getpid()}', 'wb').write(bytearray(30 << 20))\n x = [bytearray(10 << 20) for _ in range(9)]",
  ],
  ["a few large ones", "import os, time\nfor _ in range(4): os.fork()\nx = bytearray(200 << 20)\ntime.sleep(60)"],
];
for (const [what, script] of LONG ? MEMORY_BOMBS : MEMORY_BOMBS.slice(0, 2)) {
  attacked(`a memory bomb of ${what}`, async (sandbox) => {
    await sandbox.files.write("bomb.py", script);
    await sandbox.commands.run("while :; do python3 bomb.py; done", { background: true, timeoutMs: 0 });
    await expectPrompt(sandbox);
    const kills = "cat /sys/fs/cgroup/memory/memory.oom_control /sys/fs/cgroup/memory.events 2>/dev/null; true";
    // The kernel kills root's commands before the guest, too: they may need more than one try.
    const orDead = (done: Promise<boolean>) => done.catch(() => false);
    const hasKilled = () => asRoot(sandbox, kills).then((output) => /oom_kill [1-9]/.test(output));
    await until("the memory was too little", () => orDead(hasKilled()));
    await until("root has ended the attack", () => orDead(hasEnded(sandbox)));
  });
}

// Guards against noting each command in a file of the sandbox before it starts.
attacked("a full disk", async (sandbox) => {
  const fill = await asRoot(
    sandbox,
    "fallocate -l $(($(df --output=avail -B1 / | tail -1) - 50000000)) /most; dd if=/dev/zero of=/rest bs=1M 2>&1; dd if=/dev/zero of=/last bs=1 2>&1; true",
  );
  expect(fill).toContain("No space left on device");
  await expectPrompt(sandbox);
  expect((await refusalOf(sandbox.files.write("/root/big", "x".repeat(1 << 20), { user: "root" }))).message).toMatch(
    /disk is full/,
  );
  expect((await sandbox.commands.run("echo still runs")).stdout).toBe("still runs\n");
  await asRoot(sandbox, "rm -f /most /rest /last");
});
