/**
 * Clients that flood the edge, in a separate process that a test can stop and continue:
 * `flood.ts PORT HOST KIND CONNECTIONS [KEY]`. Prints a line once all are connected and, if nothing reads their data,
 * once they can send no more. Reconnects when a connection ends.
 */
import net from "node:net";

/** The request, the data sent after it, and whether responses are read. */
interface Flood {
  head: string;
  sent?: Buffer;
  /** Endlessly, every `PACE_MS`, once, or again `AGAIN_MS` after each response. */
  sends?: "endlessly" | "paced" | "once" | "again";
  isRead: boolean;
  /** The data is not read, so that the connections come to a standstill. */
  fills?: boolean;
}

const UPGRADE =
  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const CHUNKS = { head: "POST /sandboxes HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", isRead: true };

/** The longest that the management API takes. */
const JSON_BYTES = 4 * 1024 * 1024;
const JSON_BODY = { head: `POST /sandboxes HTTP/1.1\r\nContent-Length: ${JSON_BYTES}\r\n`, isRead: true };
const escapes = () => {
  const text = `{"templateID":"${"\\u0061".repeat(Math.floor(JSON_BYTES / 6) - 10)}"}`;
  return Buffer.from(text.padEnd(JSON_BYTES));
};

/**
 * The rate to a sandbox: 12 MB each second on each connection. With more, the test would measure how the service in the
 * sandbox and the edge share two processors.
 */
const PACE_MS = 10;
const PACED_BYTES = 120_000;
/** Four connections send 64 MiB of JSON each second. */
const AGAIN_MS = 250;
const paced = (unit: string) =>
  ({ sent: Buffer.from(unit.repeat(PACED_BYTES / unit.length), "latin1"), sends: "paced" }) as const;

export const FLOODS = {
  "tiny chunks": { ...CHUNKS, sent: Buffer.from("1\r\na\r\n".repeat(40_000)) },
  "tiny chunks at a pace": { ...CHUNKS, ...paced("1\r\na\r\n") },
  "long chunks": { ...CHUNKS, sent: Buffer.from(`10000\r\n${"a".repeat(65_536)}\r\n`.repeat(4)) },
  "tiny frames": {
    head: `GET /echo HTTP/1.1\r\n${UPGRADE}`,
    isRead: true,
    ...paced("\x81\x81\0\0\0\0a"),
  },
  "an endless message": {
    head: `GET /echo HTTP/1.1\r\n${UPGRADE}`,
    sent: Buffer.concat([Buffer.from("\x02\xff\0\0\0\0\0\x01\0\0\0\0\0\0", "latin1"), Buffer.alloc(65_536)]),
    isRead: false,
    fills: true,
  },
  "tiny chunks of a service": { head: "GET /tiny HTTP/1.1\r\n", isRead: true },
  "bodies of brackets": { ...JSON_BODY, sent: Buffer.alloc(JSON_BYTES, "["), sends: "again" },
  "bodies of escapes": { ...JSON_BODY, sent: escapes(), sends: "again" },
  "bodies without an end": { ...JSON_BODY, sent: Buffer.alloc(JSON_BYTES - 1, " "), sends: "once" },
  "slow readers": { head: "GET /long HTTP/1.1\r\n", isRead: false },
} as const satisfies Record<string, Flood>;

/** How long no connection may have sent anything before all count as full. */
const STANDSTILL_MS = 500;
let sentAtMs = 0;

function flood(port: number, lines: string, kind: Flood, connected: () => void): void {
  const { head, sent, sends = "endlessly", isRead } = kind;
  const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const pour = () => {
    sentAtMs = performance.now();
    while (sent !== undefined && socket.writable && socket.write(sent) && sends === "endlessly");
  };
  const ask = () => {
    if (!socket.writable) return;
    socket.write(`${head}${lines}\r\n`);
    pour();
  };
  socket.on("error", () => undefined);
  socket.on("connect", () => {
    connected();
    if (isRead) socket.on("data", () => sends === "again" && setTimeout(ask, AGAIN_MS));
    else socket.pause();
    ask();
  });
  if (sends === "endlessly") socket.on("drain", pour);
  if (sends === "paced") {
    const pacing = setInterval(() => socket.writableLength === 0 && pour(), PACE_MS);
    socket.on("close", () => clearInterval(pacing));
  }
  if (sends === "again") socket.on("end", () => socket.destroy());
  const againMs = sends === "again" ? AGAIN_MS : PACE_MS;
  socket.on("close", () => setTimeout(() => flood(port, lines, kind, () => undefined), againMs));
}

if (import.meta.main) {
  const [port = "", host = "", kind = "", connections = "", key] = process.argv.slice(2);
  const lines = `Host: ${host}\r\n${key === undefined ? "" : `X-API-Key: ${key}\r\n`}`;
  const chosen: Flood = FLOODS[kind as keyof typeof FLOODS];
  let left = Number(connections);
  const begun = () => {
    const isMoving = chosen.fills === true && performance.now() - sentAtMs < STANDSTILL_MS;
    if (isMoving) setTimeout(begun, PACE_MS);
    else console.log("begun");
  };
  const connected = () => {
    if (--left === 0) begun();
  };
  for (let at = 0; at < Number(connections); at++) flood(Number(port), lines, chosen, connected);
}
