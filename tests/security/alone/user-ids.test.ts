/**
 * Each sandbox has its own user ids on the machine, so the kernel's per-user counters are per sandbox: two sandboxes
 * that use up all they can get take nothing from a third.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { recordOf } from "../../support/inside.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { forked, resumed } from "../attacks/ways-to-start.ts";

const LIFE = { timeoutMs: 600_000 };
const server = sharedServer();
const USERS = ["user", "root"];

/** Takes as much as it can of every resource, reports it, and keeps it. */
const HOG = `
import array, ctypes, os, resource, signal, socket, sys, time
libc = ctypes.CDLL(None)
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
# The kernel gives a user 16384 pages for pipes, and 16 to each; then two to each.
pipes = [os.pipe() for _ in range(1100)]
one, other = socket.socketpair()
for _ in range(2):
    fds = array.array("i", [pipes[0][0]] * 250)
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
while libc.sigqueue(os.getpid(), 40, None) == 0:
    pass
queues = 0
while libc.mq_open(b"/%d-%d" % (os.getpid(), queues), os.O_CREAT | os.O_RDWR, 0o600, None) >= 0:
    queues += 1
# Two processes of each of the four have 80000 instances of inotify together.
reader, writer = os.pipe()
child = os.fork()
for _ in range(10000):
    if libc.inotify_init1(0) < 0:
        break
if child == 0:
    os.write(writer, b"x")
elif os.read(reader, 1):
    print("held", flush=True)
time.sleep(600)
`;

/** The resources that a process with modest needs gets. */
const MODEST = `
import array, ctypes, fcntl, os, resource, signal, socket
libc = ctypes.CDLL(None)
reader, writer = os.pipe()
print("pipe", fcntl.fcntl(reader, 1032))
# No more descriptors may be on their way than a process may have open.
resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
one, other = socket.socketpair()
try:
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [reader]))])
    print("descriptor sent")
except OSError as error:
    print("descriptor", error.strerror)
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
print("signals", [libc.sigqueue(os.getpid(), 40, None) for _ in range(100)].count(0))
print("queue", libc.mq_open(b"/%d" % os.getpid(), os.O_CREAT | os.O_RDWR, 0o600, None) >= 0)
print("inotify", libc.inotify_init1(0) >= 0)
libc.mq_unlink(b"/%d" % os.getpid())
`;
const ALL = "pipe 65536\ndescriptor sent\nsignals 100\nqueue True\ninotify True\n";

const create = () => Sandbox.create({ ...server().options, ...LIFE });

/** Resolves when it has all that it can get. */
async function startHog(sandbox: Sandbox, user: string): Promise<void> {
  await sandbox.files.write("/tmp/hog.py", HOG);
  const { promise, resolve } = Promise.withResolvers<void>();
  const onStdout = (text: string) => {
    if (text.includes("held")) resolve();
  };
  const hog = await sandbox.commands.run("python3 /tmp/hog.py", { background: true, user, timeoutMs: 0, onStdout });
  await Promise.race([promise, hog.wait().then(({ stderr }) => Promise.reject(new Error(`it ended: ${stderr}`)))]);
}

async function modestIn(sandbox: Sandbox, user: string): Promise<string> {
  await sandbox.files.write("/tmp/modest.py", MODEST);
  return (await sandbox.commands.run("python3 /tmp/modest.py", { user })).stdout;
}

const firstIdOf = ({ sandboxId }: Sandbox) => recordOf(new DataFolder(server().dataFolder), sandboxId).firstId ?? 0;

describe("beside two sandboxes that use up what a user may have", () => {
  let hogs: Sandbox[];
  beforeAll(async () => {
    hogs = await Promise.all([create(), create().then(resumed)]);
    for (const hog of hogs) for (const user of USERS) await startHog(hog, user);
  });

  test.each([
    ["a new one", async (fresh: Sandbox) => fresh],
    ["a resumed one", resumed],
    ["a fork", forked],
  ])("%s has its full share", async (_, way) => {
    const sandbox = await way(await create());
    for (const user of USERS) expect(await modestIn(sandbox, user)).toBe(ALL);
    const firsts = [...hogs, sandbox].map(firstIdOf);
    expect(new Set(firsts).size).toBe(3);
    expect(Math.min(...firsts)).toBeGreaterThan(1_900_000_000);
  });

  test("the two sandboxes have reached their own limits", async () => {
    for (const hog of hogs) for (const user of USERS) expect(await modestIn(hog, user)).not.toBe(ALL);
  });
});
