/** Sends raw bytes on their own connection and reads the response, for requests that no HTTP client would send. */
import { unchunked } from "../../base/testing/unchunked.ts";

export interface RawResponse {
  /** 0 if the guest sent no response. */
  status: number;
  head: string;
  body: Buffer;
  /** Whether the guest closed the connection; otherwise the test stopped waiting. */
  closed: boolean;
}

export interface RawOptions {
  /** Half-closes the connection after sending and keeps reading. */
  halfClose?: boolean;
  withinMs?: number;
  /** Called and awaited when the time is over, to give a slow guest the time it needs. */
  lastly?: () => Promise<unknown>;
}

export async function rawExchange(
  port: number,
  bytes: Uint8Array,
  { halfClose = false, withinMs = 20_000, lastly = async () => undefined }: RawOptions = {},
): Promise<RawResponse> {
  const received: Buffer[] = [];
  const over = Promise.withResolvers<boolean>();
  let sent = 0;
  const sendMore = (socket: Bun.Socket) => {
    while (sent < bytes.length) {
      const taken = socket.write(bytes.subarray(sent));
      if (taken <= 0) return;
      sent += taken;
    }
    if (halfClose) socket.shutdown();
  };
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    allowHalfOpen: halfClose,
    socket: {
      open: sendMore,
      drain: sendMore,
      data: (_, chunk) => void received.push(Buffer.from(chunk)),
      end: () => over.resolve(true),
      close: () => over.resolve(true),
      error: () => over.resolve(true),
    },
  });
  const giveUp = () => over.resolve(false);
  const timer = setTimeout(() => void lastly().then(giveUp, giveUp), withinMs);
  const closed = await over.promise;
  clearTimeout(timer);
  socket.terminate();
  return parseResponse(Buffer.concat(received), closed);
}

function parseResponse(bytes: Buffer, closed: boolean): RawResponse {
  const headEnd = bytes.indexOf("\r\n\r\n");
  const head = (headEnd === -1 ? bytes : bytes.subarray(0, headEnd)).toString("latin1");
  const body = headEnd === -1 ? Buffer.alloc(0) : bytes.subarray(headEnd + 4);
  return {
    status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0),
    head,
    body: /^transfer-encoding: *chunked/im.test(head) ? unchunked(body) : body,
    closed,
  };
}

/** A request with the given headers that closes the connection after its response. */
export function rawRequest(path: string, headers: Record<string, string>, body: Uint8Array | string): Buffer {
  const payload = Buffer.from(body);
  const lines = Object.entries({
    Host: "guest",
    Connection: "close",
    "Content-Length": String(payload.length),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n`), payload]);
}
