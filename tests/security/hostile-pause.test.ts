/** Hostile code that tries to prevent its pause, or to gain access to the machine through it, fails at both. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { startListening } from "../support/listening.ts";
import { sharedServer } from "../support/shared-server.ts";

const server = sharedServer();

async function pause(sandbox: Sandbox): Promise<{ status: number; message: string }> {
  const { status, body } = await server().call("POST", `/sandboxes/${sandbox.sandboxId}/pause`, {});
  return { status, message: body?.message ?? "" };
}

async function startPython(sandbox: Sandbox, program: string[]): Promise<void> {
  await sandbox.files.write("/tmp/program.py", [...program, 'print("up")', "time.sleep(900)"].join("\n"));
  await startListening(sandbox, "exec python3 -u /tmp/program.py");
}

test("memory that many processes share is not written over and over until the disk is full", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  const { memoryMB } = await sandbox.getInfo();
  await startPython(sandbox, [
    "import os, time",
    `shared = bytearray(b"x") * (${memoryMB} << 19)`,
    "for _ in range(40):",
    "    if os.fork() == 0: time.sleep(900)",
  ]);
  const { status, message } = await pause(sandbox);
  expect(status).toBe(422);
  expect(message).toContain(`more than ${memoryMB * 16} MiB`);
  expect((await sandbox.commands.run("pgrep --count python3")).stdout).toBe("41\n");
  await sandbox.kill();
});

test("a file named like a line of CRIU's log does not make errors name outside processes", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  await startPython(sandbox, [
    "import os, time",
    'folder = "/tmp/x\\n(00.000001) Error (a.c:1): task 1 "',
    "os.mkdir(folder)",
    'named = open(folder + "/file", "w")',
    // Too large to be kept once it is removed, so the pause fails and the log is looked at.
    'large = open("/home/user/large", "w")',
    "os.posix_fallocate(large.fileno(), 0, 1200 << 20)",
    'os.unlink("/home/user/large")',
  ]);
  const { status, message } = await pause(sandbox);
  expect(status).toBe(422);
  expect(message).toContain("the memory of this sandbox cannot be kept: a process: ");
  await sandbox.kill();
});

test("a pause of memory that is slow or impossible to write fails at once, and the sandbox runs on", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  const attempts: [string[], RegExp][] = [
    [
      [
        "import os, signal, time",
        "if os.getuid() != 0: os.execvp('sudo', ['sudo', 'python3', '-u', __file__])",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])",
        "reader, writer = os.pipe()",
        // One user has no more than a machine of this size has, but root inside can be many.
        "for user in range(5000, 5012):",
        "    if os.fork() == 0:",
        "        os.setuid(user)",
        "        for _ in range(12_000): os.kill(os.getpid(), signal.SIGRTMIN)",
        "        os.write(writer, b'x'); time.sleep(900)",
        "for _ in range(12): os.read(reader, 1)",
      ],
      /process \d+ "python3": \d{5} signals and timers are pending in this sandbox/,
    ],
    [
      [
        "import os, time",
        'files = [open("/tmp/one-of-many", "w")]',
        "for _ in range(2_500):",
        '    os.unlink("/tmp/one-of-many")',
        '    files.append(open("/tmp/one-of-many", "w"))',
      ],
      /process \d+ "python3": with others, it holds more than 2000 deleted files open/,
    ],
    [
      [
        "import ctypes, os, time",
        // The child of a vfork that executes nothing: its parent is blocked until the child ends.
        "maker = os.fork()",
        "if maker == 0:",
        "    libc = ctypes.CDLL(None)",
        "    CLONE_VFORK, SIGCHLD = 0x4000, 17",
        `    call = ${process.arch === "arm64" ? 220 : 56}`,
        "    if libc.syscall(call, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0: time.sleep(900)",
        "    os._exit(0)",
        // Before its child exists, the maker may wait for the disk.
        'children, stat = f"/proc/{maker}/task/{maker}/children", f"/proc/{maker}/stat"',
        'while not open(children).read() or open(stat).read().split()[2] != "D": time.sleep(0.01)',
      ],
      /process \d+ "python3": it has made a child by vfork/,
    ],
  ];
  for (const [program, reason] of attempts) {
    await startPython(sandbox, program);
    const { status, message } = await pause(sandbox);
    expect(message).toMatch(reason);
    expect(status).toBe(422);
    // A killed process takes a moment to disappear.
    await sandbox.commands.run("sudo pkill -KILL -x python3; while pgrep -x python3; do sleep 0.02; done");
  }
  expect(await pause(sandbox)).toMatchObject({ status: 204 });
  await sandbox.kill();
});
