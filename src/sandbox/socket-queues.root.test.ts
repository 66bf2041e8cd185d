/** Socket queues of real sockets, in the test's own network namespace. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { exceededLimit, QUEUED_PER_SANDBOX_MAX_BYTES, QUEUING_SOCKETS_PER_SANDBOX_MAX } from "./queue-watch.ts";
import { kernelMemoryBytes, queuedIn } from "./socket-queues.ts";

/** Sends messages of unknown type to the kernel, which acknowledges each; the acknowledgements stay unread. */
const FLOOD = `
import socket, struct, sys
held = []
def netlink():
  s = socket.socket(16, 3, 0); s.bind((0, 0)); held.append(s)
  for _ in range(8): s.send(struct.pack("IHHII", 16, 99, 5, 1, 0) * 20)
def ping():
  s = socket.socket(2, 2, 1); held.append(s)
  for _ in range(4): s.sendto(struct.pack("!BBHHH", 8, 0, 0, 1, 1) + b"x" * 20000, ("127.0.0.1", 0))
def udp():
  for family, address in ((2, "127.0.0.1"), (10, "::1")):
    for _ in range(10): s = socket.socket(family, 2); s.connect((address, 9)); held.append(s); s.send(b"x" * 20000, 0x8000)
for line in sys.stdin:
  for _ in range(10): {"netlink": netlink, "ping": ping, "udp": udp}[line.strip()]()
  print(len(held), flush=True)
`;
const ENTER = 'ip link set lo up; echo "0 0" > /proc/sys/net/ipv4/ping_group_range; exec python3 -c "$0"';

let holder: Bun.Subprocess<"pipe", "pipe", "inherit">;
let answers: AsyncIterator<string>;
beforeAll(() => {
  holder = Bun.spawn(["unshare", "--net", "sh", "-c", ENTER, FLOOD], { stdin: "pipe", stdout: "pipe" });
  answers = linesOf(holder.stdout);
});
afterAll(async () => {
  holder.kill();
  await holder.exited;
});

/** Yields complete lines only: a chunk may hold less than one, or nothing. */
async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let text = "";
  for await (const piece of stream) {
    text += Buffer.from(piece).toString();
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    yield* lines;
  }
}

async function tenMore(kind: "netlink" | "ping" | "udp") {
  holder.stdin.write(`${kind}\n`);
  await holder.stdin.flush();
  expect(await answers.next()).toMatchObject({ done: false });
  return queuedIn(holder.pid);
}

// Guards against UDP queues that no limit counts: 3 000 sockets held 180 MB of the machine, and the cgroup counted 8.
test("queued bytes of netlink, ping and UDP sockets are counted, for one namespace only", async () => {
  const netlink = await tenMore("netlink");
  expect(netlink.sockets).toBeGreaterThanOrEqual(10);
  expect(netlink.bytes).toBeGreaterThan(10 * 160 * 100);
  const both = await tenMore("ping");
  expect(both.sockets).toBeGreaterThanOrEqual(20);
  expect(both.bytes - netlink.bytes).toBeGreaterThan(10 * 4 * 20_000);
  const all = await tenMore("udp");
  // Neither the sockets, whose number is not limited, nor the data in them, which is counted.
  expect(all.sockets).toBeLessThan(both.sockets + 10);
  expect(all.bytes - both.bytes).toBeGreaterThan(200 * 20_000);
  expect(queuedIn(process.pid).bytes).toBeLessThan(netlink.bytes);
});

test("an ended process is an error, not an empty count", () => {
  expect(() => queuedIn(2 ** 22 + 1)).toThrow("ENOENT");
});

test("the kernel's own memory is read", () => {
  expect(kernelMemoryBytes()).toBeGreaterThan(0);
});

test.each([
  [0, 0, undefined],
  [QUEUING_SOCKETS_PER_SANDBOX_MAX, QUEUED_PER_SANDBOX_MAX_BYTES, undefined],
  [8, QUEUED_PER_SANDBOX_MAX_BYTES + 8 * 1024 * 1024, "held 40 MiB of uncounted kernel memory; the limit is 32 MiB"],
  [5000, 0, "had 5000 netlink and ping sockets open; the limit is 4096"],
])("%p sockets with %p bytes", (sockets, bytes, words) => {
  const reason = exceededLimit({ sockets, bytes });
  if (words === undefined) expect(reason).toBeUndefined();
  else expect(reason).toContain(words);
});
