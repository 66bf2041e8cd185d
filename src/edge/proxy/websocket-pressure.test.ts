/** WebSockets with one side that sends too much or reads nothing: the edge's memory stays bounded. */
import { describe, expect, test } from "bun:test";
import type { Socket } from "node:net";
import { untilStill, untilTrue } from "../../base/testing/until.ts";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { next, RawService } from "../testing/edge-under-test.ts";

/** Upper bound for unread data of one side that the edge and the kernel's buffers may hold. */
const HELD_MAX_BYTES = 32 * 1024 * 1024;

const edge = edgeOfFile();

/** A service that agrees to the handshake by hand, then leaves the connection to the test. */
function byHand(then: (socket: Socket) => void): Promise<RawService> {
  return RawService.start((socket, head) => {
    const key = /sec-websocket-key: (.*)\r\n/i.exec(head)?.[1] ?? "";
    const accept = new Bun.CryptoHasher("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    then(socket);
  });
}

describe("a side that does not read", () => {
  // Guards against a client that is read while the service is not.
  test("a service that reads nothing blocks the client", async () => {
    await using service = await byHand((socket) => socket.pause());
    const socket = edge.websocket(service.port);
    await new Promise((resolve) => {
      socket.onopen = resolve;
    });
    const before = process.memoryUsage.rss();
    const chunk = new Uint8Array(1024 * 1024);
    for (let sent = 0; sent < 3 * HELD_MAX_BYTES; sent += chunk.length) socket.send(chunk);
    // The client's own buffer holds most of it, since the edge reads no more; both live in this process.
    expect(await untilStill(() => socket.bufferedAmount)).toBeGreaterThan(HELD_MAX_BYTES);
    expect(socket.readyState).toBe(WebSocket.OPEN);
    expect(process.memoryUsage.rss() - before).toBeLessThan(6 * HELD_MAX_BYTES);
    let received = 0;
    const all = new Promise<void>((resolve) => {
      service.sockets[0]?.removeAllListeners("data");
      service.sockets[0]?.on("data", (bytes) => {
        received += bytes.length;
        if (received >= 3 * HELD_MAX_BYTES) resolve();
      });
    });
    service.sockets[0]?.resume();
    await all;
    socket.close();
  });

  test("a client that reads nothing blocks the service", async () => {
    let written = 0;
    const message = Buffer.concat([Buffer.from([0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]), Buffer.alloc(65_536)]);
    await using service = await byHand((socket) => {
      const pump = () => {
        while (written < 64 * HELD_MAX_BYTES) {
          written += message.length;
          if (!socket.write(message)) return;
        }
      };
      socket.on("drain", pump);
      pump();
    });
    const socket = edge.websocket(service.port);
    await new Promise((resolve) => {
      socket.onopen = resolve;
    });
    socket.pause();
    const last = await untilStill(() => written);
    expect(last).toBeLessThan(HELD_MAX_BYTES);
    expect(socket.readyState).toBe(WebSocket.OPEN);
    const got = next(socket);
    socket.resume();
    expect((await got).length).toBe(65_536);
    await untilTrue(() => written !== last);
    socket.terminate();
  });
});
