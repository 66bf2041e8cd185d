/**
 * Resolves names for one sandbox through one name server. Responses are cached for their time to live. Sandboxes share
 * no cache, because it would reveal which names the others resolve.
 */
import type { RecordWithTtl } from "node:dns";
import { Resolver } from "node:dns/promises";

/** Timeout of the first try, number of tries, and concurrent queries per sandbox. */
const RELAY_NAME_MS = 2_000;
const RELAY_NAME_TRIES_MAX = 2;
const RELAY_NAMES_ASKED_PER_SANDBOX_MAX = 32;
/** Cache size per sandbox, the addresses of a name, and the longest time that an entry is kept. */
const RELAY_NAMES_KEPT_MAX = 64;
const RELAY_NAME_ADDRESSES_MAX = 64;
const RELAY_NAME_KEPT_MAX_MS = 60_000;

export interface NameServer {
  address: string;
  port: number;
}

export class NameClient {
  readonly #kept = new Map<string, { addresses: readonly string[]; until: number }>();
  readonly #pending = new Map<string, Promise<readonly string[]>>();

  constructor(private readonly server: NameServer) {}

  /** No addresses: the name has none, or the server does not respond. */
  async resolve(name: string): Promise<readonly string[]> {
    const wanted = (name.endsWith(".") ? name.slice(0, -1) : name).toLowerCase();
    const kept = this.#kept.get(wanted);
    if (kept !== undefined && kept.until > performance.now()) return kept.addresses;
    const pending = this.#pending.get(wanted);
    if (pending !== undefined) return pending;
    if (this.#pending.size >= RELAY_NAMES_ASKED_PER_SANDBOX_MAX) return [];
    const query = this.#ask(wanted).finally(() => this.#pending.delete(wanted));
    this.#pending.set(wanted, query);
    return query;
  }

  /** Each query has its own resolver: one resolver would cache the responses of all its queries, without a bound. */
  async #ask(name: string): Promise<readonly string[]> {
    const resolver = new Resolver({ timeout: RELAY_NAME_MS, tries: RELAY_NAME_TRIES_MAX });
    resolver.setServers([`${this.server.address}:${this.server.port}`]);
    const found = await resolver.resolve4(name, { ttl: true }).catch(() => []);
    return this.#keep(name, found.slice(0, RELAY_NAME_ADDRESSES_MAX));
  }

  #keep(name: string, found: readonly RecordWithTtl[]): readonly string[] {
    this.#kept.delete(name);
    const addresses = found.map(({ address }) => address);
    const keptMs = Math.min(...found.map(({ ttl }) => ttl * 1000), RELAY_NAME_KEPT_MAX_MS);
    if (addresses.length === 0 || keptMs === 0) return addresses;
    const oldest = this.#kept.keys().next().value;
    if (this.#kept.size >= RELAY_NAMES_KEPT_MAX && oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.set(name, { addresses, until: performance.now() + keptMs });
    return addresses;
  }
}
