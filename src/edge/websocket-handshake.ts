/**
 * Opens a WebSocket at a sandbox's service on a client's behalf. Done here rather than by Bun's WebSocket client,
 * because that one hides a refusal's headers and body, and fails when the service chooses none of the offered
 * subprotocols.
 */

import { gather, readAnswerHead } from "./answer-head.ts";
import { towardsClient, towardsSandbox } from "./carried-headers.ts";
import { EDGE_HANDSHAKE_BODY_MAX_BYTES } from "./limits.ts";
import { SandboxSocket } from "./sandbox-socket.ts";

type Handshake =
  /**
   * The service agreed. `headers` are those of its answer that the client should get; the subprotocol is among them.
   */
  | { socket: SandboxSocket; headers: Headers }
  /** The service answered otherwise. */
  | { declined: Response };

const ACCEPT_SALT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** The client's upgrade request as the service gets it. Extensions are not offered: frames are relayed as messages. */
export function handshakeRequest(request: Request, target: string): Buffer {
  const headers = new Headers(request.headers);
  towardsSandbox(headers);
  headers.delete("sec-websocket-extensions");
  headers.delete("content-length");
  let head = `GET ${target} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n`;
  headers.forEach((value, name) => {
    head += `${name}: ${value}\r\n`;
  });
  return Buffer.from(`${head}\r\n`, "latin1");
}

/** Given up when the client leaves, or when `ended` says that the sandbox is gone. */
export async function shakeHands(
  host: string,
  port: number,
  asked: Buffer,
  request: Request,
  ended: AbortSignal,
): Promise<Handshake> {
  const socket = await SandboxSocket.dial(host, port);
  const leave = () => socket.terminate();
  request.signal.addEventListener("abort", leave);
  ended.addEventListener("abort", leave);
  try {
    // Either may be gone since the connection was asked for.
    if (request.signal.aborted || ended.aborted) throw new Error("the client or the sandbox left during the handshake");
    socket.write(asked);
    const { status, headers, rest } = await readAnswerHead(socket);
    if (status !== 101) return { declined: await declined(socket, status, headers, rest) };
    checkAgreement(headers, request.headers.get("sec-websocket-key") ?? "");
    socket.unlisten(rest);
    towardsClient(headers);
    headers.delete("sec-websocket-accept");
    return { socket, headers };
  } catch (failure) {
    socket.terminate();
    throw failure;
  } finally {
    request.signal.removeEventListener("abort", leave);
    ended.removeEventListener("abort", leave);
  }
}

function checkAgreement(headers: Headers, key: string): void {
  const expected = new Bun.CryptoHasher("sha1").update(key + ACCEPT_SALT).digest("base64");
  if (headers.get("sec-websocket-accept") !== expected) throw new Error("the service did not prove the handshake");
  if (headers.has("sec-websocket-extensions")) throw new Error("the service chose an extension that was not offered");
}

/** The refusal as it came. Its body is passed on when it is short and its length is known. */
async function declined(
  socket: SandboxSocket,
  status: number,
  headers: Headers,
  rest: Buffer<ArrayBuffer>,
): Promise<Response> {
  const plain = !headers.has("transfer-encoding");
  const length = Number(headers.get("content-length") ?? 0);
  towardsClient(headers);
  headers.delete("content-length");
  let body: Uint8Array<ArrayBuffer> | null = null;
  if (plain && length > 0 && length <= EDGE_HANDSHAKE_BODY_MAX_BYTES) {
    body = await gather(socket, rest, (bytes) =>
      bytes.length >= length ? new Uint8Array(bytes.subarray(0, length)) : undefined,
    );
  }
  socket.terminate();
  return new Response(body, { status, headers });
}
