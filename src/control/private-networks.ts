/**
 * Private networks that are open to the sandboxes of each team: those of the server's setting, or those that the
 * operator set for the team. Names are resolved periodically. When the open ranges of a team change, its running
 * sandboxes get new rules, and connections that are no longer allowed are cut.
 */
import type { Timer } from "../base/clock.ts";
import { Ipv4Ranges } from "../contract/ip-range.ts";
import { type PrivateNetworks as Entries, openedByName, parsePrivateNetworks } from "../contract/private-networks.ts";
import type { Parts } from "./parts.ts";

/** Interval at which names are resolved and changed team limits are noticed. */
export const PRIVATE_NETWORKS_REFRESH_MS = 30_000;
/** A name that stops resolving keeps its addresses for this long. */
export const PRIVATE_NAME_KEPT_MS = 10 * 60_000;
/** Rounds after a change in which all running sandboxes of a team get their rules again. */
const PRIVATE_NETWORKS_RENEWALS = 3;

interface PrivateServices extends Parts {
  /** Applies the rules of the team's running sandboxes again. */
  renew(teamId: string): Promise<void>;
}

interface KnownName {
  addresses: readonly string[];
  /** Time of the last lookup, and of the last one that returned an address. */
  lookedUpAt: number;
  seenAt: number;
}

interface Opened {
  ranges: string;
  /** Rounds left. Sandboxes that were being created at the change get their rules in a later round. */
  renewals: number;
}

export class PrivateNetworks {
  readonly #usual: Entries;
  readonly #names = new Map<string, KnownName>();
  readonly #opened = new Map<string, Opened>();
  #timer: Timer | undefined;

  constructor(
    private readonly services: PrivateServices,
    usual: readonly string[],
  ) {
    this.#usual = parsePrivateNetworks("privateRanges", usual);
  }

  /** For an EgressPolicy. Undefined: for work that belongs to no team. */
  async rangesOf(teamId: string | undefined): Promise<readonly string[]> {
    const team = teamId === undefined ? undefined : await this.services.store.people.team(teamId);
    const own = team?.limits.private;
    const { ranges, names } = own === undefined ? this.#usual : parsePrivateNetworks("private", own);
    if (names.length === 0) return ranges;
    const addresses = await Promise.all(names.map((name) => this.#addressesOf(name)));
    return new Ipv4Ranges([...ranges, ...openedByName(addresses.flat())]).cidrs;
  }

  /**
   * Starts the rounds. The setting may have changed while the server was down, so all sandboxes get their rules once.
   */
  start(): void {
    this.services.background.run("open private networks could not be refreshed", () => this.#refresh());
    this.#timer = this.services.idleClock.after(PRIVATE_NETWORKS_REFRESH_MS, () => this.start());
  }

  close(): void {
    this.#timer?.cancel();
  }

  async #refresh(): Promise<void> {
    const { store, renew } = this.services;
    for (const { id } of await store.people.teams()) {
      const ranges = (await this.rangesOf(id)).join();
      const before = this.#opened.get(id);
      // At the start no sandbox is being created, so one round is enough.
      const changed = before === undefined ? 1 : PRIVATE_NETWORKS_RENEWALS;
      const renewals = before?.ranges === ranges ? before.renewals : changed;
      this.#opened.set(id, { ranges, renewals: Math.max(0, renewals - 1) });
      if (renewals > 0) await renew(id);
    }
  }

  /** A name server that is unavailable for a while closes nothing. */
  async #addressesOf(name: string): Promise<readonly string[]> {
    const now = this.services.clock.now();
    const known = this.#names.get(name);
    if (known !== undefined && known.lookedUpAt + PRIVATE_NETWORKS_REFRESH_MS > now) return known.addresses;
    const addresses = (await this.services.host.lookUp(name, [])).map(({ address }) => address);
    const isKept = addresses.length === 0 && known !== undefined && known.seenAt + PRIVATE_NAME_KEPT_MS > now;
    const found = isKept ? { ...known, lookedUpAt: now } : { addresses, lookedUpAt: now, seenAt: now };
    this.#names.set(name, found);
    return found.addresses;
  }
}
