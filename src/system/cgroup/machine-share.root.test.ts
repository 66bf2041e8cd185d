/** The machine's share, on the test's own cgroup, with a process that really takes too much. */
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CGROUP_ROOT } from "./cgroups.ts";
import { memoryForSandboxes, reserveMemoryForMachine, reserveSocketMemoryForMachine } from "./machine-share.ts";
import { makeParentCgroup } from "./parents.ts";
import { removeCgroups } from "./removal.ts";

const GIB = 1024 ** 3;
const TOP = `sandlot-share-${process.pid}`;
const BOUND = 48 * 1024 * 1024;
afterAll(() => removeCgroups(TOP));

test.each([
  [64 * GIB, 60 * GIB],
  [8 * GIB, 7.5 * GIB],
  [2 * GIB, 1.5 * GIB],
  [0.5 * GIB, 0.25 * GIB],
])("of %p bytes, sandboxes may have %p", (total, share) => {
  expect(memoryForSandboxes(total)).toBe(share);
});

// Guards against a process that gets its 200 MB.
test("when all sandboxes together exceed their share, only a sandbox's process is killed", async () => {
  makeParentCgroup(`${TOP}/server`);
  reserveMemoryForMachine(`${TOP}/server`, BOUND);
  const memory = existsSync(join(CGROUP_ROOT, "memory")) ? join(CGROUP_ROOT, "memory") : CGROUP_ROOT;
  const sandbox = join(memory, TOP, "server/sandbox");
  mkdirSync(sandbox);
  const enter = `echo $$ > ${sandbox}/cgroup.procs && exec python3 -c 'bytearray(200 << 20)'`;
  const greedy = Bun.spawn(["sh", "-c", enter], { stdout: "ignore", stderr: "ignore" });
  await greedy.exited;
  expect(greedy.signalCode).toBe("SIGKILL");
});

test("a lower existing limit stays", () => {
  reserveMemoryForMachine(`${TOP}/server`, 2 * BOUND);
  const files = [join(CGROUP_ROOT, "memory", TOP, "memory.limit_in_bytes"), join(CGROUP_ROOT, TOP, "memory.max")];
  expect(Number(readFileSync(files.find((path) => existsSync(path)) ?? "", "utf8"))).toBe(BOUND);
});

/** Sends to itself without reading, until the kernel takes no more of it or it has sent so much. */
const FILL_SOCKETS = `
import socket
server = socket.create_server(("127.0.0.1", 0))
held, sent = [], 0
for _ in range(64):
    sender = socket.create_connection(server.getsockname())
    sender.setblocking(False)
    held += [sender, server.accept()[0]]
    try:
        while sent < 64 << 20: sent += sender.send(bytes(65536))
    except BlockingIOError: pass
print(sent)`;

// With cgroup v2 it is memory like any other. Guards against a missing limit: all of it is then taken.
test.skipIf(!existsSync(join(CGROUP_ROOT, "memory/memory.kmem.tcp.limit_in_bytes")))(
  "bytes queued in sockets of all sandboxes together are bounded",
  async () => {
    const top = `${TOP}-sockets`;
    const sandbox = join(CGROUP_ROOT, "memory", top, "server/sandbox");
    mkdirSync(sandbox, { recursive: true });
    // Every sandbox has this limit; the kernel counts only for cgroups that have it.
    writeFileSync(join(sandbox, "memory.kmem.tcp.limit_in_bytes"), String(GIB));
    reserveSocketMemoryForMachine(`/${top}/server`, 4 * 1024 * 1024);
    const enter = `ip link set lo up; echo $$ > ${sandbox}/cgroup.procs && exec python3 -c '${FILL_SOCKETS}'`;
    const greedy = Bun.spawn(["unshare", "--net", "sh", "-c", enter], { stdout: "pipe", stderr: "inherit" });
    const sent = Number(await new Response(greedy.stdout).text());
    await removeCgroups(top);
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThan(32 * 1024 * 1024);
  },
);
