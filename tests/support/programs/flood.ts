/**
 * Clients that flood the edge, in a process of their own, which a test can stop and continue:
 * `flood.ts PORT HOST KIND CONNECTIONS`. It prints a line once all are connected. A connection that ends is made again.
 */
import net from "node:net";

/** What is asked, what is sent behind it without end, and whether answers are read. */
interface Flood {
  head: string;
  sent?: Buffer;
  isRead: boolean;
}

const UPGRADE =
  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const CHUNKS = { head: "POST /sandboxes HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", isRead: true };

export const FLOODS = {
  "tiny chunks": { ...CHUNKS, sent: Buffer.from("1\r\na\r\n".repeat(40_000)) },
  "long chunks": { ...CHUNKS, sent: Buffer.from(`10000\r\n${"a".repeat(65_536)}\r\n`.repeat(4)) },
  "tiny frames": {
    head: `GET /echo HTTP/1.1\r\n${UPGRADE}`,
    sent: Buffer.from("\x81\x81\0\0\0\0a".repeat(40_000), "latin1"),
    isRead: true,
  },
  "an endless message": {
    head: `GET /echo HTTP/1.1\r\n${UPGRADE}`,
    sent: Buffer.concat([Buffer.from("\x02\xff\0\0\0\0\0\x01\0\0\0\0\0\0", "latin1"), Buffer.alloc(65_536)]),
    isRead: false,
  },
  "tiny chunks of a service": { head: "GET /tiny HTTP/1.1\r\n", isRead: true },
  "slow readers": { head: "GET /long HTTP/1.1\r\n", isRead: false },
} as const satisfies Record<string, Flood>;

function flood(port: number, host: string, { head, sent, isRead }: Flood, connected: () => void): void {
  const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const pour = () => {
    while (sent !== undefined && socket.writable && socket.write(sent));
  };
  socket.on("error", () => undefined);
  socket.on("connect", () => {
    connected();
    socket.write(`${head}Host: ${host}\r\n\r\n`);
    if (isRead) socket.on("data", () => undefined);
    else socket.pause();
    pour();
  });
  socket.on("drain", pour);
  socket.on("close", () => setTimeout(() => flood(port, host, { head, sent, isRead } as Flood, () => undefined), 10));
}

if (import.meta.main) {
  const [port = "", host = "", kind = "", connections = ""] = process.argv.slice(2);
  let left = Number(connections);
  const connected = () => {
    if (--left === 0) console.log("connected");
  };
  for (let at = 0; at < Number(connections); at++) {
    flood(Number(port), host, FLOODS[kind as keyof typeof FLOODS], connected);
  }
}
