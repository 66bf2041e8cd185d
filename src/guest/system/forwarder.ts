/**
 * Forwarders for services that listen on loopback only and are unreachable from outside the sandbox. A forwarder
 * listens on the sandbox's network address and carries bytes both ways, with backpressure and half-close.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { logError } from "./log.ts";

export const FORWARDERS_MAX = 256;
export const FORWARD_CONNECTIONS_MAX = 1024;
const FORWARD_PROBE_MS = 1_000;
const FORWARD_IDLE_MS = 60_000;

const LOOPBACK_ADDRESSES = ["127.0.0.1", "::1"];
/** Errors of a connection that one side closed. */
const USUAL_ERRORS: readonly string[] = ["ECONNREFUSED", "ECONNRESET", "EPIPE"];

export class Forwarders {
  readonly #byPort = new Map<number, Forwarder>();

  constructor(private readonly idleMs: number = FORWARD_IDLE_MS) {}

  /** The outside port for a loopback port, or undefined if nothing listens there. */
  async open(port: number): Promise<number | undefined> {
    const address = await findListener(port);
    if (address === undefined) return undefined;
    let forwarder = this.#byPort.get(port);
    if (forwarder === undefined) {
      if (this.#byPort.size >= FORWARDERS_MAX) {
        throw new Fault(503, `all ${FORWARDERS_MAX} forwarders are in use; close connections to other ports first`);
      }
      forwarder = new Forwarder(port, this.idleMs, () => this.#byPort.delete(port));
      this.#byPort.set(port, forwarder);
    }
    return forwarder.forwardTo(address);
  }
}

class Forwarder {
  readonly #server: Server;
  readonly #listening: Promise<unknown>;
  #connections = 0;
  #address = "127.0.0.1";
  #idleTimer: Timer | undefined;

  constructor(
    private readonly port: number,
    private readonly idleMs: number,
    private readonly onClose: () => void,
  ) {
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#accept(client));
    this.#server.listen(0, "0.0.0.0");
    this.#listening = once(this.#server, "listening");
    // Callers of forwardTo receive the error themselves.
    this.#listening.catch(() => this.#close());
  }

  async forwardTo(address: string): Promise<number> {
    this.#address = address;
    await this.#listening;
    this.#rest();
    return (this.#server.address() as AddressInfo).port;
  }

  #accept(client: Socket): void {
    if (this.#connections >= FORWARD_CONNECTIONS_MAX) {
      client.resetAndDestroy();
      return;
    }
    this.#connections++;
    clearTimeout(this.#idleTimer);
    const service = connect({ host: this.#address, port: this.port, allowHalfOpen: true });
    client.pipe(service);
    service.pipe(client);
    for (const [side, other] of [
      [client, service],
      [service, client],
    ] as const) {
      side.on("error", (error) => {
        if (!USUAL_ERRORS.includes(systemCode(error))) logError("a forwarded connection broke", error);
        other.destroy();
      });
      // Data that the other side has not taken yet is still written.
      side.on("close", () => other.destroySoon());
    }
    client.on("close", () => {
      this.#connections--;
      this.#rest();
    });
  }

  #rest(): void {
    clearTimeout(this.#idleTimer);
    if (this.#connections > 0) return;
    this.#idleTimer = setTimeout(() => this.#close(), this.idleMs);
    this.#idleTimer.unref();
  }

  #close(): void {
    this.#server.close();
    this.onClose();
  }
}

async function findListener(port: number): Promise<string | undefined> {
  const answers = await Promise.all(LOOPBACK_ADDRESSES.map((address) => accepts(address, port)));
  return LOOPBACK_ADDRESSES.find((_, index) => answers[index]);
}

async function accepts(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port });
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(FORWARD_PROBE_MS) });
    return true;
  } catch {
    // Refused, unreachable, no such address family or too late: nothing listens there.
    return false;
  } finally {
    socket.on("error", () => undefined).destroy();
  }
}
