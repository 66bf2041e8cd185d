/**
 * A TCP connection to a sandbox, for what fetch cannot carry. What cannot be sent at once waits here; the owner sees
 * how much waits and holds back its source. Bytes received before somebody listens are kept, with the sandbox held
 * back.
 */
import type { Socket } from "bun";
import { EDGE_KEEPALIVE_MS, EDGE_WEBSOCKET_CLOSE_MS } from "./limits.ts";

export interface SandboxSocketListener {
  data(bytes: Buffer<ArrayBuffer>): void;
  /** All that waited has been sent. */
  drained(): void;
  /** Called once, however the connection ended. */
  closed(): void;
}

export class SandboxSocket {
  #socket: Socket<SandboxSocket> | undefined;
  #listener: SandboxSocketListener | undefined;
  #early: Buffer<ArrayBuffer>[] = [];
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #ending = false;
  #closed = false;
  #release: (() => void) | undefined;

  /** Rejects with code ECONNREFUSED when nobody listens there. */
  static async dial(host: string, port: number): Promise<SandboxSocket> {
    const connection = new SandboxSocket();
    connection.#socket = await Bun.connect<SandboxSocket>({
      hostname: host,
      port,
      data: connection,
      socket: {
        open: (socket) => {
          socket.setNoDelay(true);
          socket.setKeepAlive(true, EDGE_KEEPALIVE_MS);
        },
        // Its own copy: what a socket hands out is never shared memory, though its type leaves that open.
        data: (socket, bytes) => socket.data.#received(bytes as Buffer<ArrayBuffer>),
        drain: (socket) => socket.data.#flush(),
        close: (socket) => socket.data.#ended(),
        // Bun reports a failed connection here and then closes it; the close is what counts.
        error: (socket) => socket.data.terminate(),
      },
    });
    return connection;
  }

  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** From now on this listener hears of the connection, first of what arrived before. */
  listen(listener: SandboxSocketListener): void {
    this.#listener = listener;
    const early = this.#early;
    this.#early = [];
    for (const bytes of early) this.#received(bytes);
    if (this.#closed) listener.closed();
    else this.resume();
  }

  /** Puts the listener off; `unread` is what it got but has no use for. */
  unlisten(unread: Buffer<ArrayBuffer>): void {
    this.#listener = undefined;
    if (unread.length > 0) this.#early.unshift(unread);
    this.pause();
  }

  write(bytes: Buffer): void {
    if (this.#closed || this.#ending) return;
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#waiting.length === 1) this.#send();
  }

  /** Stops reading, so that the sandbox is held back. */
  pause(): void {
    if (!this.#closed) this.#socket?.pause();
  }

  resume(): void {
    if (!this.#closed) this.#socket?.resume();
  }

  /** Sends what waits, then closes. A sandbox that does not take it in time is cut off. */
  finish(): void {
    if (this.#closed || this.#ending) return;
    this.#ending = true;
    // The far side's close must be seen even if the owner had stopped reading.
    this.resume();
    setTimeout(() => this.terminate(), EDGE_WEBSOCKET_CLOSE_MS).unref();
    if (this.#waiting.length === 0) this.#socket?.end();
  }

  terminate(): void {
    if (!this.#closed) this.#socket?.terminate();
  }

  /** The connection is cut when the signal is aborted. */
  endWith(signal: AbortSignal): void {
    const cut = () => this.terminate();
    this.#release = () => signal.removeEventListener("abort", cut);
    signal.addEventListener("abort", cut);
    if (signal.aborted) cut();
    else if (this.#closed) this.#release();
  }

  #received(bytes: Buffer<ArrayBuffer>): void {
    if (this.#listener === undefined) this.#early.push(bytes);
    else this.#listener.data(bytes);
  }

  #flush(): void {
    this.#send();
    if (this.#waiting.length > 0) return;
    if (this.#ending) this.#socket?.end();
    else this.#listener?.drained();
  }

  #send(): void {
    for (;;) {
      const next = this.#waiting[0];
      if (next === undefined) return;
      const sent = this.#socket?.write(next) ?? -1;
      if (sent < 0) return;
      this.#waitingBytes -= sent;
      if (sent < next.length) {
        this.#waiting[0] = next.subarray(sent);
        return;
      }
      this.#waiting.shift();
    }
  }

  #ended(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#release?.();
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#listener?.closed();
  }
}
