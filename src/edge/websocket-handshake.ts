/**
 * Opens a WebSocket at a sandbox's service on a client's behalf. Done here rather than by Bun's WebSocket client,
 * because that one hides a refusal's headers and body, and fails when the service chooses none of the offered
 * subprotocols.
 */

import { gather, readAnswerHead } from "./answer-head.ts";
import { linesTowardsClient, linesTowardsSandbox } from "./carried-headers.ts";
import { HeaderLines } from "./front/header-lines.ts";
import { EDGE_HANDSHAKE_BODY_MAX_BYTES } from "./limits.ts";
import type { Way } from "./reach.ts";
import { SandboxSocket } from "./sandbox-socket.ts";

type Handshake =
  /**
   * The service agreed. `headers` are those of its answer that the client should get; the subprotocol is among them.
   */
  | { socket: SandboxSocket; headers: Headers }
  /** The service answered otherwise. */
  | { declined: Response };

const ACCEPT_SALT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** Given up when the client leaves, or when the sandbox is gone. */
export async function shakeHands(request: Request, target: string, way: Way): Promise<Handshake> {
  const { host, port, tlsName, maskedHost, ended } = way;
  const asked = handshakeRequest(request, target, maskedHost);
  const socket = await SandboxSocket.dial({ to: { host, port }, tlsName, until: [request.signal, ended] });
  try {
    socket.write(asked);
    const { status, headers, rest } = await readAnswerHead(socket);
    if (status !== 101) return { declined: await declined(socket, status, headers, rest) };
    checkAgreement(headers, request.headers.get("sec-websocket-key") ?? "");
    socket.unlisten(rest);
    // The request is over once its connection is a WebSocket's.
    socket.endWith(ended);
    socket.keepAlive();
    return { socket, headers: clientHeaders(headers, "sec-websocket-accept") };
  } catch (failure) {
    socket.terminate();
    throw failure;
  }
}

/** Extensions are not offered: frames are relayed as messages. A body is nobody's. */
const NOT_OFFERED: ReadonlySet<string> = new Set(["sec-websocket-extensions", "content-length"]);

/** The client's upgrade request as the service gets it. */
function handshakeRequest(request: Request, target: string, maskedHost: string | null): Buffer<ArrayBuffer> {
  const headers = new HeaderLines();
  request.headers.forEach((value, name) => {
    if (!NOT_OFFERED.has(name)) headers.append(name, value);
  });
  const lines = linesTowardsSandbox(headers, maskedHost);
  return Buffer.from(`GET ${target} HTTP/1.1\r\n${lines}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`, "latin1");
}

function checkAgreement(headers: HeaderLines, key: string): void {
  const expected = new Bun.CryptoHasher("sha1").update(key + ACCEPT_SALT).digest("base64");
  if (headers.get("sec-websocket-accept") !== expected) throw new Error("the service did not prove the handshake");
  if (headers.has("sec-websocket-extensions")) throw new Error("the service chose an extension that was not offered");
}

/** The refusal as it came. Its body is passed on when it is short and its length is known. */
async function declined(
  socket: SandboxSocket,
  status: number,
  headers: HeaderLines,
  rest: Buffer<ArrayBuffer>,
): Promise<Response> {
  const plain = !headers.has("transfer-encoding");
  const length = Number(headers.get("content-length") ?? 0);
  let body: Uint8Array<ArrayBuffer> | null = null;
  if (plain && length > 0 && length <= EDGE_HANDSHAKE_BODY_MAX_BYTES) {
    body = await gather(socket, rest, (bytes) =>
      bytes.length >= length ? new Uint8Array(bytes.subarray(0, length)) : undefined,
    );
  }
  socket.terminate();
  return new Response(body, { status, headers: clientHeaders(headers, "content-length") });
}

/** What the client gets of them, but for this one. */
function clientHeaders(headers: HeaderLines, dropped: string): Headers {
  const lines = new Headers();
  linesTowardsClient(headers)
    .without(dropped)
    .forEach((value, name) => {
      lines.append(name, value);
    });
  return lines;
}
