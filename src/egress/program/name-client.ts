/**
 * Resolves names for one sandbox through one name server. Each query uses its own socket connected to that server.
 * Responses are cached for their time to live. Sandboxes share no cache, because it would reveal which names the others
 * resolve.
 */
import { type Addresses, addressesIn, addressQuestion } from "./address-question.ts";

/** Timeout of one try, number of tries, and concurrent queries per sandbox. */
const RELAY_NAME_MS = 2_500;
const RELAY_NAME_TRIES_MAX = 2;
const RELAY_NAMES_ASKED_PER_SANDBOX_MAX = 32;
/** Cache size per sandbox and the longest time that an entry is kept. */
const RELAY_NAMES_KEPT_MAX = 64;
const RELAY_NAME_KEPT_MAX_MS = 60_000;

export interface NameServer {
  address: string;
  port: number;
}

export class NameClient {
  readonly #kept = new Map<string, { addresses: readonly string[]; until: number }>();
  readonly #asked = new Map<string, Promise<readonly string[]>>();

  constructor(private readonly server: NameServer) {}

  /** No addresses: the name has none, or the server does not respond. */
  async resolve(name: string): Promise<readonly string[]> {
    const wanted = (name.endsWith(".") ? name.slice(0, -1) : name).toLowerCase();
    const kept = this.#kept.get(wanted);
    if (kept !== undefined && kept.until > performance.now()) return kept.addresses;
    const asked = this.#asked.get(wanted);
    if (asked !== undefined) return asked;
    if (this.#asked.size >= RELAY_NAMES_ASKED_PER_SANDBOX_MAX) return [];
    const asking = this.#ask(wanted).finally(() => this.#asked.delete(wanted));
    this.#asked.set(wanted, asking);
    return asking;
  }

  async #ask(name: string): Promise<readonly string[]> {
    for (let tries = 0; tries < RELAY_NAME_TRIES_MAX; tries++) {
      const answer = await ask(this.server, name);
      if (answer === undefined) continue;
      this.#keep(name, answer);
      return answer.addresses;
    }
    return [];
  }

  #keep(name: string, { addresses, ttlSeconds }: Addresses): void {
    this.#kept.delete(name);
    const keptMs = Math.min(ttlSeconds * 1000, RELAY_NAME_KEPT_MAX_MS);
    if (addresses.length === 0 || keptMs === 0) return;
    const oldest = this.#kept.keys().next().value;
    if (this.#kept.size >= RELAY_NAMES_KEPT_MAX && oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.set(name, { addresses, until: performance.now() + keptMs });
  }
}

/** Undefined: no usable response. */
async function ask(server: NameServer, name: string): Promise<Addresses | undefined> {
  const id = crypto.getRandomValues(new Uint16Array(1))[0] ?? 0;
  const answered = Promise.withResolvers<Addresses | undefined>();
  const late = setTimeout(() => answered.resolve(undefined), RELAY_NAME_MS);
  let socket: Bun.udp.ConnectedSocket<"buffer"> | undefined;
  try {
    socket = await Bun.udpSocket({
      connect: { hostname: server.address, port: server.port },
      socket: {
        data: (_, message) => {
          const answer = addressesIn(message, id, name);
          if (answer !== undefined) answered.resolve(answer);
        },
        error: () => answered.resolve(undefined),
      },
    });
    socket.send(addressQuestion(id, name));
    return await answered.promise;
  } catch {
    return undefined;
  } finally {
    clearTimeout(late);
    socket?.close();
  }
}
