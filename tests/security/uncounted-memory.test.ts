/**
 * Kernel memory that no limit counts: data queued in netlink and ping sockets. One such socket can queue little, and a
 * sandbox that queues much in many of them is ended.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { Sandbox } from "e2b";
import { QUEUED_PER_SANDBOX_MAX_BYTES } from "../../src/sandbox/queue-watch.ts";
import { startListening } from "../support/listening.ts";
import { sharedServer } from "../support/shared-server.ts";
import { until } from "../support/until.ts";

const LIFE = { timeoutMs: 600_000 };
/** A look at all sandboxes every ten seconds, on a machine that has other work. */
const WITHIN_MS = 60_000;
const server = sharedServer();

async function newSandbox(how: string): Promise<Sandbox> {
  const sandbox = await Sandbox.create({ ...server().options, ...LIFE });
  if (how === "resumed") {
    await sandbox.pause();
    await sandbox.connect(LIFE);
  }
  return sandbox;
}

const python = (sandbox: Sandbox, program: string) =>
  sandbox.commands.run(`python3 -c '${program}'`, { timeoutMs: 60_000 }).then(({ stdout }) => stdout.trim());

/** Each program fills one socket with unread data, as far as the kernel allows. */
const FILL = {
  // Messages of unknown type; the kernel answers each.
  netlink: `
def fill():
  s = socket.socket(16, 3, 0); s.bind((0, 0)); s.setblocking(False); held.append(s)
  for _ in range(100): s.send(struct.pack("IHHII", 16, 99, 5, 1, 0) * 50)`,
  ping: `
def fill():
  s = socket.socket(2, 2, 1); s.setblocking(False); held.append(s)
  for _ in range(100): s.sendto(struct.pack("!BBHHH", 8, 0, 0, 1, 1) + b"x" * 20000, ("127.0.0.1", 0))`,
};
/** A third more sockets than all may queue together, if each holds a socket's default. */
const SOCKETS = Math.ceil(
  (QUEUED_PER_SANDBOX_MAX_BYTES * 4) / 3 / Number(readFileSync("/proc/sys/net/core/rmem_default", "utf8")),
);
const flood = (fill: string) => `
import socket, struct, time
held = []${fill}
for _ in range(${SOCKETS}):
  try: fill()
  except OSError: pass
print("filled", flush=True)
time.sleep(600)`;

describe.each(["booted", "resumed"])("in a sandbox that was %s", (how) => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await newSandbox(how);
  });

  // Guards against an allowed setsockopt(): 8388608 on a machine that allows 4 MiB.
  test("no socket can enlarge its receive buffer", async () => {
    const kinds = "[(16, 3, 0), (2, 2, 1), (2, 2, 0), (1, 2, 0)]";
    const options =
      's.setsockopt(1, 8, 4 << 20); s.setsockopt(1, 8, 1 << 12); s.getsockopt(1, 8) == before or print("changed")';
    const grow = `for kind in ${kinds}: s = socket.socket(*kind); before = s.getsockopt(1, 8); ${options}`;
    expect(await python(sandbox, `import socket\n${grow}\nprint("held")`)).toBe("held");
  });

  // Guards against the same: the call succeeds.
  test.each([
    ["a filter", 26],
    ["a filter of a group of sockets", 51],
  ])("no socket gets %s", async (_, option) => {
    const tell = "except OSError as error: print(error.errno)";
    const program = `import socket, struct, ctypes
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 1))
try: socket.socket(2, 2).setsockopt(1, ${option}, struct.pack("HxxxxxxQ", 1, ctypes.addressof(code))); print("done")
${tell}`;
    expect(await python(sandbox, program)).toBe("1");
  });

  test("other socket options take effect", async () => {
    const set = ["(1, 9, 1)", "(1, 2, 1)", "(1, 15, 1)", "(6, 1, 1)", "(6, 4, 30)", "(0, 1, 16)", "(1, 7, 65536)"];
    const program = `import socket; s = socket.socket(); [s.setsockopt(*each) for each in (${set.join(",")})]; print(s.getsockopt(6, 4))`;
    expect(await python(sandbox, program)).toBe("30");
    expect(await python(sandbox, "import socket; s = socket.socket(10); s.setsockopt(41, 26, 1); print(1)")).toBe("1");
    const unknown = "import socket\ntry: socket.socket().setsockopt(1, 9999, 1)\nexcept OSError as e: print(e.errno)";
    expect(await python(sandbox, unknown)).toBe("92");
  });
});

// Guards against 43 MB of the machine's memory that the sandbox's cgroup does not count.
test.each([
  ["netlink", "booted"],
  ["ping", "resumed"],
] as const)("a sandbox with too many unread bytes in %s sockets is ended with a reason", async (kind, how) => {
  const sandbox = await newSandbox(how);
  // The server may end it before all are filled.
  await startListening(sandbox, `exec python3 -c '${flood(FILL[kind])}'`).catch(() => undefined);
  await until("it is ended", async () => !(await sandbox.isRunning()), WITHIN_MS);
  const textOf = async (path: string) => JSON.stringify((await server().call("GET", path)).body);
  const { sandboxId } = sandbox;
  await until("its team is told", async () =>
    (await textOf(`/events/sandboxes/${sandboxId}`)).includes("sandbox.lifecycle.killed"),
  );
  await until("its log says why", async () =>
    /netlink, ping and UDP sockets held \d+ MiB of uncounted kernel memory/.test(
      await textOf(`/sandboxes/${sandboxId}/logs`),
    ),
  );
  // Other sandboxes are not affected.
  const other = await Sandbox.create({ ...server().options, ...LIFE });
  expect(await other.isRunning()).toBe(true);
  await other.kill();
});
