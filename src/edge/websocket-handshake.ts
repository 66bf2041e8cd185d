/**
 * Opens a WebSocket at a sandbox's service on a client's behalf. Done here rather than by Bun's WebSocket client, because
 * that one hides a refusal's headers and body, and fails when the service chooses none of the offered subprotocols.
 */
import { EDGE_HANDSHAKE_BODY_MAX_BYTES, EDGE_HANDSHAKE_HEAD_MAX_BYTES } from "../contract/limits.ts";
import { towardsClient, towardsSandbox } from "./carried-headers.ts";
import { SandboxSocket } from "./sandbox-socket.ts";

export type Handshake =
  /** The service agreed. `headers` are those of its answer that the client should get; the subprotocol is among them. */
  | { socket: SandboxSocket; headers: Headers }
  /** The service answered otherwise. */
  | { declined: Response };

const ACCEPT_SALT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const END_OF_HEAD = "\r\n\r\n";

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

export async function shakeHands(address: string, port: number, asked: Buffer, request: Request): Promise<Handshake> {
  const socket = await SandboxSocket.dial(address, port);
  const leave = () => socket.terminate();
  request.signal.addEventListener("abort", leave);
  try {
    // The client may have left while the connection was being made.
    if (request.signal.aborted) throw new Error("the client left during the handshake");
    socket.write(asked);
    const received = await readHead(socket);
    const { status, headers } = parseHead(received.head);
    if (status !== 101) return { declined: await declined(socket, status, headers, received.rest) };
    checkAgreement(headers, request.headers.get("sec-websocket-key") ?? "");
    socket.unlisten(received.rest);
    towardsClient(headers);
    headers.delete("sec-websocket-accept");
    return { socket, headers };
  } catch (failure) {
    socket.terminate();
    throw failure;
  } finally {
    request.signal.removeEventListener("abort", leave);
  }
}

/** Gathers bytes until `enough` finds what it wants in them, or the connection ends. */
function gather<T>(socket: SandboxSocket, start: Buffer, enough: (bytes: Buffer, ended: boolean) => T | undefined) {
  return new Promise<T>((resolve, reject) => {
    let bytes = start;
    const look = (ended: boolean) => {
      try {
        const found = enough(bytes, ended);
        if (found !== undefined) resolve(found);
        else if (ended) reject(new Error("the service hung up during the handshake"));
      } catch (failure) {
        reject(failure);
      }
    };
    socket.listen({
      data: (more) => {
        bytes = Buffer.concat([bytes, more]);
        look(false);
      },
      drained: () => undefined,
      closed: () => look(true),
    });
    look(false);
  });
}

function readHead(socket: SandboxSocket): Promise<{ head: string; rest: Buffer }> {
  return gather(socket, Buffer.alloc(0), (bytes) => {
    const end = bytes.indexOf(END_OF_HEAD);
    if (end >= 0) {
      return { head: bytes.toString("latin1", 0, end), rest: bytes.subarray(end + END_OF_HEAD.length) };
    }
    if (bytes.length > EDGE_HANDSHAKE_HEAD_MAX_BYTES) throw new Error("the service's answer has too long a head");
    return undefined;
  });
}

function parseHead(head: string): { status: number; headers: Headers } {
  const [statusLine = "", ...lines] = head.split("\r\n");
  const status = Number(/^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(statusLine)?.[1]);
  if (Number.isNaN(status)) throw new Error("the service's answer is not HTTP");
  const headers = new Headers();
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon <= 0) throw new Error("the service's answer has a malformed header");
    headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return { status, headers };
}

function checkAgreement(headers: Headers, key: string): void {
  const expected = new Bun.CryptoHasher("sha1").update(key + ACCEPT_SALT).digest("base64");
  if (headers.get("sec-websocket-accept") !== expected) throw new Error("the service did not prove the handshake");
  if (headers.has("sec-websocket-extensions")) throw new Error("the service chose an extension that was not offered");
}

/** The refusal as it came. Its body is passed on when it is short and its length is known. */
async function declined(socket: SandboxSocket, status: number, headers: Headers, rest: Buffer): Promise<Response> {
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
