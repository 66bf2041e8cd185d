/**
 * Services that listen on a loopback address only cannot be reached from outside of the sandbox. A forwarder listens on
 * the sandbox's network address and carries bytes to such a service, both ways, with backpressure and half-close.
 */
import type { Socket, TCPSocketListener } from "bun";
import { Fault } from "../../contract/fault.ts";
import { FORWARD_CONNECTIONS_MAX, FORWARD_IDLE_MS, FORWARD_PROBE_MS, FORWARDERS_MAX } from "../limits.ts";
import { logError } from "./log.ts";
import { systemCode } from "./rpc-fault.ts";

const LOOPBACK_ADDRESSES = ["127.0.0.1", "::1"];

/** One side of a carried connection. `waiting` is what the other side sent and this socket has not taken yet. */
interface Side {
  peer: Socket<Side> | undefined;
  waiting: Uint8Array;
  /** The other side has said that it sends no more. */
  lastByteQueued: boolean;
}

export class Forwarders {
  readonly #byPort = new Map<number, Forwarder>();
  readonly #idleMs: number;

  constructor(idleMs = FORWARD_IDLE_MS) {
    this.#idleMs = idleMs;
  }

  /** The outside port that leads to a loopback port, or undefined when nothing listens there. */
  async open(port: number): Promise<number | undefined> {
    const address = await findListener(port);
    if (address === undefined) return undefined;
    const present = this.#byPort.get(port);
    if (present !== undefined) return present.leadTo(address);
    if (this.#byPort.size >= FORWARDERS_MAX) {
      throw new Fault(503, `all ${FORWARDERS_MAX} forwarders are in use; close connections to other ports first`);
    }
    const fresh = new Forwarder(port, this.#idleMs, () => this.#byPort.delete(port));
    this.#byPort.set(port, fresh);
    return fresh.leadTo(address);
  }
}

class Forwarder {
  readonly #port: number;
  readonly #idleMs: number;
  readonly #onClose: () => void;
  readonly #listener: TCPSocketListener<Side>;
  readonly #clients = new Set<Socket<Side>>();
  #address = "127.0.0.1";
  #idleTimer: Timer | undefined;

  constructor(port: number, idleMs: number, onClose: () => void) {
    this.#port = port;
    this.#idleMs = idleMs;
    this.#onClose = onClose;
    this.#listener = Bun.listen<Side>({
      hostname: "0.0.0.0",
      port: 0,
      allowHalfOpen: true,
      socket: {
        ...sideHandlers,
        open: (client) => this.#accept(client),
        close: (client) => {
          sideHandlers.close(client);
          this.#release(client);
        },
      },
    });
  }

  leadTo(address: string): number {
    this.#address = address;
    this.#rest();
    return this.#listener.port;
  }

  #accept(client: Socket<Side>): void {
    client.data = freshSide();
    if (this.#clients.size >= FORWARD_CONNECTIONS_MAX) {
      client.terminate();
      return;
    }
    this.#clients.add(client);
    clearTimeout(this.#idleTimer);
    // Nothing is read before there is somebody to give it to.
    client.pause();
    void this.#join(client);
  }

  async #join(client: Socket<Side>): Promise<void> {
    try {
      const service = await Bun.connect<Side>({
        hostname: this.#address,
        port: this.#port,
        allowHalfOpen: true,
        data: { ...freshSide(), peer: client },
        socket: sideHandlers,
      });
      if (!this.#clients.has(client)) {
        service.end();
        return;
      }
      client.data.peer = service;
      client.resume();
    } catch (thrown) {
      if (systemCode(thrown) !== "ECONNREFUSED")
        logError("a forwarded connection failed", thrown, { port: this.#port });
      client.terminate();
    }
  }

  #release(client: Socket<Side>): void {
    this.#clients.delete(client);
    this.#rest();
  }

  #rest(): void {
    clearTimeout(this.#idleTimer);
    if (this.#clients.size > 0) return;
    this.#idleTimer = setTimeout(() => this.#close(), this.#idleMs);
    this.#idleTimer.unref();
  }

  #close(): void {
    this.#listener.stop();
    this.#onClose();
  }
}

const NOTHING = new Uint8Array(0);

function freshSide(): Side {
  return { peer: undefined, waiting: NOTHING, lastByteQueued: false };
}

const sideHandlers = {
  data(from: Socket<Side>, chunk: Uint8Array): void {
    const to = from.data.peer;
    if (to === undefined) {
      // Paused sockets may still deliver what was read already.
      from.data.waiting = NOTHING;
      from.terminate();
      return;
    }
    give(to, to.data.waiting.length === 0 ? chunk : Buffer.concat([to.data.waiting, chunk]));
    if (to.data.waiting.length > 0) from.pause();
  },
  drain(to: Socket<Side>): void {
    give(to, to.data.waiting);
    if (to.data.waiting.length > 0) return;
    if (to.data.lastByteQueued) to.shutdown();
    else to.data.peer?.resume();
  },
  end(from: Socket<Side>): void {
    const to = from.data.peer;
    if (to === undefined) return;
    to.data.lastByteQueued = true;
    if (to.data.waiting.length === 0) to.shutdown();
  },
  close(socket: Socket<Side>): void {
    const peer = socket.data?.peer;
    if (peer === undefined) return;
    peer.data.peer = undefined;
    if (peer.data.waiting.length === 0) peer.end();
  },
  error(socket: Socket<Side>, thrown: Error): void {
    if (!["ECONNRESET", "EPIPE"].includes(systemCode(thrown))) logError("a forwarded connection broke", thrown);
    socket.terminate();
  },
};

/** Writes what the socket takes and keeps a copy of the rest: the source's buffer is reused. */
function give(to: Socket<Side>, bytes: Uint8Array): void {
  const written = to.write(bytes);
  if (written < 0) {
    to.data.waiting = NOTHING;
    to.terminate();
    return;
  }
  to.data.waiting = written === bytes.length ? NOTHING : bytes.slice(written);
}

async function findListener(port: number): Promise<string | undefined> {
  const answers = await Promise.all(LOOPBACK_ADDRESSES.map((address) => accepts(address, port)));
  return LOOPBACK_ADDRESSES.find((_, index) => answers[index]);
}

async function accepts(hostname: string, port: number): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => late.resolve(false), FORWARD_PROBE_MS);
  try {
    return await Promise.race([probe(hostname, port), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

async function probe(hostname: string, port: number): Promise<boolean> {
  try {
    const socket = await Bun.connect({ hostname, port, socket: { data: (early) => void early.end() } });
    socket.end();
    return true;
  } catch {
    // Refused, unreachable, no such address family: nobody listens there, which is the answer.
    return false;
  }
}
