/** Kernel limits of the whole machine: one sandbox cannot use up the others' share. */
import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { SANDBOX_PIDS_MAX } from "../../src/contract/runtime/limits.ts";
import { SANDBOX_PIDS_FOR_ROOT } from "../../src/guest/process/priority.ts";
import { TERMINALS_PER_SANDBOX_MAX } from "../../src/sandbox/runtime/crun/oci-spec.ts";
import { CGROUP_ROOT } from "../../src/system/cgroup/cgroups.ts";
import { memoryForSandboxes } from "../../src/system/cgroup/machine-share.ts";
import { memoryInUse } from "../../src/system/cgroup/memory-in-use.ts";
import { DataFolder } from "../../src/system/data-folder.ts";
import { OPEN_FILES_WANTED } from "../../src/system/open-files.ts";
import { recordOf } from "../support/inside.ts";
import { startListening } from "../support/listening.ts";
import { sharedServer } from "../support/shared-server.ts";

const LIFE = { timeoutMs: 600_000 };
/** More than any sandbox can pay for is more than it can use up: a file takes at least so much of its memory. */
const OPEN_FILE_MIN_BYTES = 192;

const server = sharedServer();
const create = () => Sandbox.create({ ...server().options, ...LIFE });
const python = (sandbox: Sandbox, program: string) =>
  sandbox.commands.run(`python3 -c '${program}'`, { timeoutMs: 60_000 }).then(({ stdout }) => stdout.trim());
const memoryOf = (sandbox: Sandbox) =>
  memoryInUse(recordOf(new DataFolder(server().dataFolder), sandbox.sandboxId).cgroup);
const setting = (path: string) => Number(readFileSync(`/proc/sys/${path}`, "utf8"));
const memoryOfMachine = () => Number(/^MemTotal:\s*(\d+) kB$/m.exec(readFileSync("/proc/meminfo", "utf8"))?.[1]) * 1024;

/** Takes all that it can get, tells how many that were, and keeps them until it is ended. */
const GREEDY = `
import os, time
held = []
try:
  while len(held) < 2000: held.append(os.openpty())
except OSError: pass
print(len(held), flush=True)
time.sleep(600)`;

/** Reaches one bound after the other, lets go again, and tells how far it came and with which error. */
const REACH_ALL = `
import ctypes, errno, json, os, threading
libc = ctypes.CDLL(None, use_errno=True)
reached = {}
def reach(name, take, give):
  held = []
  while len(held) < 1 << 21:
    try: held.append(take())
    except OSError as error:
      reached[name] = [len(held), errno.errorcode[error.errno]]
      break
  for each in held: give(each)
over = threading.Event()
threading.stack_size(1 << 18)
def place():
  # Threads take the same places as processes, and less memory; which error it is, only fork tells.
  thread = threading.Thread(target=over.wait)
  try: thread.start()
  except RuntimeError: os._exit(0) if os.fork() == 0 else None
  return thread
def leave(thread):
  over.set()
  if thread.ident: thread.join()
def segment():
  id = libc.shmget(0, 8 << 20, 0o1600)
  if id < 0: raise OSError(ctypes.get_errno(), "")
  return id
def grow():
  if memory.write(bytes(1 << 20)) < 1 << 20: raise OSError(errno.ENOSPC, "")
reach("processes", place, leave)
reach("files", lambda: os.dup(0), os.close)
reach("terminals", os.openpty, lambda ends: (os.close(ends[0]), os.close(ends[1])))
reach("segments", segment, lambda id: libc.shmctl(id, 0, None))
memory = open("/dev/shm/big", "wb", buffering=0)
reach("memory", grow, lambda _: None)
os.unlink("/dev/shm/big")
print(json.dumps(reached))`;

test.each([
  ["user", SANDBOX_PIDS_MAX - SANDBOX_PIDS_FOR_ROOT],
  ["root", SANDBOX_PIDS_MAX],
])("beyond each bound a program of %s gets the documented error", async (user, processesMax) => {
  const sandbox = await create();
  await sandbox.files.write("/tmp/reach.py", REACH_ALL);
  const { stdout } = await sandbox.commands.run("python3 /tmp/reach.py", { user, timeoutMs: 110_000 });
  const { files, terminals, segments, memory, processes } = JSON.parse(stdout);
  expect(files).toEqual([expect.any(Number), "EMFILE"]);
  // It has three from the start.
  const allowed = await sandbox.commands.run("ulimit -n", { user });
  expect(files[0]).toBe(Number(allowed.stdout) - 3);
  expect(Number(allowed.stdout)).toBeLessThanOrEqual(OPEN_FILES_WANTED);
  expect(terminals).toEqual([TERMINALS_PER_SANDBOX_MAX, "ENOSPC"]);
  expect(segments).toEqual([16, "ENOSPC"]);
  expect(memory).toEqual([256, "ENOSPC"]);
  expect(processes).toEqual([expect.any(Number), "EAGAIN"]);
  // Existing processes take some of the places.
  expect(processes[0]).toBeLessThan(processesMax);
  expect(processes[0]).toBeGreaterThan(processesMax - 100);
  await sandbox.kill();
});

describe.each(["booted", "resumed"])("a sandbox that was %s", (how) => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await create();
    if (how === "booted") return;
    await sandbox.pause();
    await sandbox.connect(LIFE);
  });

  // Guards against a devpts without max=: one sandbox had 2 000 of the machine's 3 071 terminals.
  test("has a bounded number of terminals, and others have theirs", async () => {
    const { stdout } = await startListening(sandbox, `exec python3 -c '${GREEDY}'`);
    expect(stdout.trim()).toBe(String(TERMINALS_PER_SANDBOX_MAX));
    const other = await create();
    expect(await python(other, "import os; print(len([os.openpty() for _ in range(64)]))")).toBe("64");
    await other.kill();
  });
});

// Guards against the kernel's own bound of 2 462 388 files on a machine of 24 GB: 630 MB of one sandbox's memory.
test("open files are charged to the sandbox's memory, which runs out before the machine's limit", async () => {
  const sandbox = await create();
  const before = memoryOf(sandbox);
  const files = 15_000;
  const program = `import os, time; held = [os.open("/dev/null", 0) for _ in range(${files})]; print(len(held), flush=True); time.sleep(600)`;
  const { stdout } = await startListening(sandbox, `exec python3 -c '${program}'`);
  expect(stdout.trim()).toBe(String(files));
  expect(memoryOf(sandbox) - before).toBeGreaterThan(files * OPEN_FILE_MIN_BYTES);
  expect(setting("fs/file-max") * OPEN_FILE_MIN_BYTES).toBeGreaterThan(memoryOfMachine());
  await sandbox.kill();
});

// Guards against no bound (9223372036854771712), with which the kernel may kill the server.
test("all sandboxes together leave a part of the memory to the machine", async () => {
  const sandbox = await create();
  const files = ["memory/sandlot/memory.limit_in_bytes", "sandlot/memory.max"].map((file) => join(CGROUP_ROOT, file));
  const limit = Number(readFileSync(files.find((path) => existsSync(path)) ?? "", "utf8"));
  expect(limit).toBeLessThanOrEqual(memoryForSandboxes(memoryOfMachine()));
  expect(limit).toBeGreaterThan(0);
  await sandbox.kill();
});
