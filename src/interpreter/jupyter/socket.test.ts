import { afterEach, expect, test } from "bun:test";
import { mkdtempSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { untilTrue } from "../../base/testing/until.ts";
import { KernelSocket } from "./socket.ts";
import { greeting, type Message, message, ready } from "./zmtp.ts";

const root = folderOfFile("zmtp");
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** The other end: what it is sent, and a way to send. */
function peer(path: string, first: Buffer) {
  let sent = Buffer.alloc(0);
  let socket: Socket | undefined;
  const server = createServer((opened) => {
    socket = opened;
    opened.write(first);
    opened.on("data", (piece: Buffer) => {
      sent = Buffer.concat([sent, piece]);
    });
    opened.on("error", () => undefined);
  });
  server.listen(path);
  servers.push(server);
  return { sent: () => sent, send: (bytes: Buffer) => socket?.write(bytes), close: () => socket?.destroy() };
}

test("a socket waits for its kernel, and an ended wait leaves the socket open", async () => {
  const path = join(mkdtempSync(join(root, "x")), "kernel");
  const start = new AbortController();
  const received: Message[] = [];
  let isLost = false;
  const connecting = KernelSocket.connect(path, "SUB", {
    signal: start.signal,
    onMessage: (one) => received.push(one),
    onLost: () => {
      isLost = true;
    },
  });
  const kernel = peer(path, Buffer.concat([greeting(), ready("DEALER")]));
  await connecting;
  start.abort();
  kernel.send(message([Buffer.from("topic"), Buffer.from("x")]));
  await untilTrue(() => received.length === 1);
  expect(received).toEqual([{ frames: [Buffer.from("topic"), Buffer.from("x")] }]);
  const subscription = Buffer.from([0, 1, 1]);
  await untilTrue(() => kernel.sent().includes(subscription));
  expect(isLost).toBe(false);
  kernel.close();
  await untilTrue(() => isLost);
});

test.each([
  ["bytes that are not ZMTP", Buffer.from("HTTP/1.1 200 OK\r\n".repeat(8))],
  ["a frame that cannot be", Buffer.concat([greeting(), Buffer.from([0xff, 0])])],
])("a socket is closed if the other side sends %s", async (_, first) => {
  const path = join(mkdtempSync(join(root, "x")), "kernel");
  peer(path, first);
  const { promise, resolve } = Promise.withResolvers<void>();
  const { signal } = new AbortController();
  const connecting = KernelSocket.connect(path, "DEALER", { signal, onMessage: () => undefined, onLost: resolve });
  await expect(connecting).rejects.toThrow("closed");
  await promise;
});
