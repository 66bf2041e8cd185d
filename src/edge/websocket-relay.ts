/**
 * One WebSocket connection carried through the edge: messages, pings and closings in both directions. A side that takes
 * nothing holds the other back; what cannot be held back is given up with code 1013.
 */
import type { Server, ServerWebSocket, WebSocketHandler } from "bun";
import type { ReadHeaders } from "./front/header-lines.ts";
import {
  EDGE_WEBSOCKET_MESSAGE_MAX_BYTES,
  EDGE_WEBSOCKET_QUEUE_MAX_BYTES,
  EDGE_WEBSOCKET_QUEUE_PAUSE_BYTES,
  EDGE_WEBSOCKET_SILENT_SECONDS,
} from "./limits.ts";
import type { Reach } from "./reach.ts";
import { refuse } from "./refusal.ts";
import type { SandboxAddress } from "./sandbox-address.ts";
import type { SandboxSocket, SandboxSocketListener } from "./sandbox-socket.ts";
import {
  CloseCode,
  closeFrame,
  closeOf,
  FrameError,
  FrameReader,
  type FrameSink,
  frame,
  isSendable,
  Opcode,
} from "./websocket-frame.ts";
import { shakeHands } from "./websocket-handshake.ts";

export function isWebSocketUpgrade({ method, headers }: { method: string; headers: ReadHeaders }): boolean {
  return method === "GET" && headers.get("upgrade")?.toLowerCase() === "websocket" && headers.has("sec-websocket-key");
}

/**
 * Connects to the service first, so that its refusal can still be an HTTP answer. Undefined: the client is upgraded.
 */
export async function upgradeThrough(
  reach: Reach,
  route: SandboxAddress,
  target: string,
  request: Request,
  server: Server<Relay>,
): Promise<Response | undefined> {
  const { headers: asking, signal } = request;
  const outcome = await reach.to(route, { headers: asking, signal, mayWake: true }, (way) =>
    shakeHands(request, target, way),
  );
  if ("refusal" in outcome) return refuse(outcome.refusal, request.headers);
  if ("declined" in outcome.reached) return outcome.reached.declined;
  const { socket, headers } = outcome.reached;
  // Bun would choose the client's first subprotocol where the service chose none.
  request.headers.delete("sec-websocket-protocol");
  if (server.upgrade(request, { data: new Relay(socket), headers })) return undefined;
  socket.terminate();
  return refuse({ reason: "bad-request", status: 400, text: "Invalid WebSocket handshake" }, request.headers);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class Relay implements SandboxSocketListener, FrameSink {
  readonly #sandbox: SandboxSocket;
  readonly #reader = new FrameReader(this);
  #client: ServerWebSocket<Relay> | undefined;
  #pingsUnanswered = 0;
  #over = false;

  constructor(sandbox: SandboxSocket) {
    this.#sandbox = sandbox;
  }

  clientOpened(client: ServerWebSocket<Relay>): void {
    this.#client = client;
    this.#sandbox.listen(this);
  }

  clientMessage(message: string | Buffer): void {
    if (typeof message === "string") this.#toSandbox(frame(Opcode.Text, Buffer.from(message)));
    else this.#toSandbox(frame(Opcode.Binary, message));
  }

  /** Bun has answered the client already; the service sees the ping, and its answer is not needed twice. */
  clientPing(payload: Buffer): void {
    this.#pingsUnanswered += 1;
    this.#toSandbox(frame(Opcode.Ping, payload));
  }

  clientPong(payload: Buffer): void {
    this.#toSandbox(frame(Opcode.Pong, payload));
  }

  clientDrained(): void {
    this.#sandbox.resume();
  }

  clientClosed(code: number, reason: string): void {
    if (this.#over) return;
    this.#over = true;
    if (code !== CloseCode.NoCode && !isSendable(code)) {
      this.#sandbox.terminate();
      return;
    }
    this.#sandbox.write(closeFrame(code, reason));
    this.#sandbox.finish();
  }

  /** From the sandbox: bytes. */
  data(bytes: Buffer): void {
    if (this.#over) return;
    try {
      this.#reader.push(bytes);
    } catch (failure) {
      if (!(failure instanceof FrameError)) throw failure;
      this.#end(failure.closeCode, failure.message);
    }
  }

  drained(): void {
    if (this.#client?.isPaused) this.#client.resume();
  }

  closed(): void {
    if (this.#over) return;
    this.#over = true;
    this.#client?.terminate();
  }

  message(opcode: typeof Opcode.Text | typeof Opcode.Binary, payload: Buffer): void {
    const client = this.#client;
    if (this.#over || client === undefined) return;
    const result = opcode === Opcode.Text ? client.sendText(text(payload)) : client.sendBinary(payload);
    if (result === -1) this.#sandbox.pause();
    else if (result === 0 && payload.length > 0) this.#end(CloseCode.TryAgainLater, "the client is too slow");
  }

  control(opcode: typeof Opcode.Close | typeof Opcode.Ping | typeof Opcode.Pong, payload: Buffer): void {
    if (this.#over) return;
    if (opcode === Opcode.Ping) this.#client?.ping(payload);
    else if (opcode === Opcode.Close) this.#sandboxCloses(payload);
    else if (this.#pingsUnanswered > 0) this.#pingsUnanswered -= 1;
    else this.#client?.pong(payload);
  }

  #sandboxCloses(payload: Buffer): void {
    const { code, reason } = closeOf(payload);
    this.#end(code, reason);
  }

  #toSandbox(bytes: Buffer): void {
    if (this.#over) return;
    this.#sandbox.write(bytes);
    const { waitingBytes } = this.#sandbox;
    if (waitingBytes > EDGE_WEBSOCKET_QUEUE_MAX_BYTES) this.#end(CloseCode.TryAgainLater, "the service is too slow");
    else if (waitingBytes > EDGE_WEBSOCKET_QUEUE_PAUSE_BYTES) this.#client?.pause();
  }

  /** Closes both sides with the same code. */
  #end(code: number, reason: string): void {
    this.#over = true;
    // A paused client could not answer the closing.
    if (this.#client?.isPaused) this.#client.resume();
    if (code === CloseCode.NoCode) this.#client?.close();
    else this.#client?.close(code, reason);
    this.#sandbox.write(closeFrame(code, reason));
    this.#sandbox.finish();
  }
}

function text(payload: Buffer): string {
  try {
    return utf8.decode(payload);
  } catch {
    throw new FrameError(CloseCode.InvalidText, "text that is not UTF-8");
  }
}

export const relayHandler: WebSocketHandler<Relay> = {
  maxPayloadLength: EDGE_WEBSOCKET_MESSAGE_MAX_BYTES,
  backpressureLimit: EDGE_WEBSOCKET_QUEUE_MAX_BYTES,
  perMessageDeflate: false,
  idleTimeout: EDGE_WEBSOCKET_SILENT_SECONDS,
  sendPings: true,
  open: (client) => client.data.clientOpened(client),
  message: (client, message) => client.data.clientMessage(message),
  drain: (client) => client.data.clientDrained(),
  ping: (client, payload) => client.data.clientPing(payload),
  pong: (client, payload) => client.data.clientPong(payload),
  close: (client, code, reason) => client.data.clientClosed(code, reason),
};
