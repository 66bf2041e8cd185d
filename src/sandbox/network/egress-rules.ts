/**
 * What may leave each sandbox, in all three places that decide it: the judge that the DNS relay asks, the relay of
 * connections, and the firewall, which alone decides who gets to that relay. A change is over when it holds in all of
 * them. Each of them has the old rules or the new ones in between, so nothing passes that both forbid, and what both
 * allow finds the relay ready: it hears of a sandbox before connections are led to it, and forgets it after.
 */

import { described, stderrLog } from "../../base/log.ts";
import { OneAtATime, OneAtATimeByKey } from "../../base/one-at-a-time.ts";
import { Fault } from "../../contract/fault.ts";
import type { Egress, EgressPolicy } from "../../contract/internal/host.ts";
import { EgressJudge } from "../../egress/egress-judge.ts";
import type { EgressRelay } from "../../egress/egress-relay.ts";
import { openedSpans, replaceOpened } from "./ruleset.ts";
import {
  fillChains,
  makeSets,
  needsRelay,
  OPEN,
  removeSets,
  type SlotRules,
  type SlotState,
  type TableFacts,
  type Way,
} from "./slot-chains.ts";

/** Decides by names, and speaks to proxies. */
export type ConnectionRelay = Pick<EgressRelay, "uid" | "ports" | "set" | "setClosed" | "close">;

interface EgressRulesParts {
  table: string;
  net: number;
  address(slot: number): string;
  nft(script: string): Promise<void>;
}

interface Held extends SlotState {
  /** False: a change of it failed, and so did the way back. */
  isSure: boolean;
  /** Earlier ones whose sets may still be there. */
  earlier: readonly SlotState[];
}

const CLOSED = new EgressJudge({ allowRanges: [], allowNames: [], denyRanges: ["0.0.0.0/0"], proxy: null });

export class EgressRules {
  readonly #parts: EgressRulesParts;
  readonly #turns = new OneAtATimeByKey();
  /** Of slots about which something was said. */
  readonly #held = new Map<number, Held>();
  readonly #judges = new Map<string, EgressJudge>();
  #relay: ConnectionRelay | undefined;
  #versions = 0;
  /** What is being put in place, by slot. */
  readonly #applied = new Map<number, SlotState>();
  readonly #openings = new OneAtATime();
  /** What the relay may reach of private networks, as the table has it. */
  #opened = "";

  constructor(parts: EgressRulesParts) {
    this.#parts = parts;
  }

  judgeOf(address: string): EgressJudge | undefined {
    return this.#judges.get(address);
  }

  /** What the next table begins with. */
  get slots(): readonly SlotState[] {
    return [...this.#held.values()];
  }

  get relay(): ConnectionRelay | undefined {
    return this.#relay;
  }

  /** Of a sandbox that was found running, before there is a table. */
  adopt(slot: number, egress: Egress): void {
    if (egress !== "open") this.#held.set(slot, this.#stateOf(slot, { egress, ways: [] }));
  }

  /** From now on this one decides by names; it is told of all that was adopted. */
  async use(relay: ConnectionRelay | undefined): Promise<void> {
    this.#relay = relay;
    // The table is made with these.
    this.#opened = openedSpans(this.slots).join();
    await Promise.all(
      [...this.#held.values()].map(async ({ slot, rules: { egress } }) => {
        this.#setJudge(slot, egress);
        if (needsRelay(egress)) await this.#tellRelay(slot, egress);
      }),
    );
  }

  /** When it throws, the rules before are in force, or it says that either may be. */
  async set(slot: number, egress: Egress): Promise<void> {
    await this.#inTurn(slot, ({ ways }) => ({ egress, ways }));
  }

  async grant(slot: number, ways: readonly Way[]): Promise<void> {
    await this.#inTurn(slot, ({ egress }) => ({ egress, ways }));
  }

  /** Nothing was ever said of this slot. Resolves when nothing of it is left. */
  async forget(slot: number): Promise<void> {
    await this.#turns.run(String(slot), async () => {
      await this.#change(slot, OPEN);
      await this.#removeEarlier(slot);
      this.#held.delete(slot);
    });
  }

  /** Resolves when nothing is under way. */
  async settled(): Promise<void> {
    await this.#turns.settled();
  }

  /** The caller goes on as soon as the new rules hold. What is left of the ones before is removed after. */
  async #inTurn(slot: number, next: (before: SlotRules) => SlotRules): Promise<void> {
    const holds = Promise.withResolvers<void>();
    void this.#turns.run(String(slot), async () => {
      try {
        await this.#change(slot, next(this.#held.get(slot)?.rules ?? OPEN));
        holds.resolve();
      } catch (cause) {
        holds.reject(cause);
      }
      await this.#removeEarlier(slot);
    });
    await holds.promise;
  }

  async #change(slot: number, rules: SlotRules): Promise<void> {
    const before = this.#held.get(slot) ?? this.#stateOf(slot, OPEN);
    if (before.isSure && Bun.deepEquals(before.rules, rules)) return;
    const next = this.#stateOf(slot, rules, [...before.earlier, before]);
    try {
      await this.#apply(next);
    } catch (cause) {
      await this.#goBack(before, next, cause);
    }
    this.#held.set(slot, next);
    await this.#endRelayed(next);
  }

  async #apply(state: SlotState): Promise<void> {
    const { slot, rules } = state;
    const sets = makeSets(this.#facts, state);
    this.#setJudge(slot, rules.egress);
    this.#applied.set(slot, state);
    await Promise.all([
      this.#openToRelay(),
      needsRelay(rules.egress) ? this.#tellRelay(slot, rules.egress) : undefined,
      sets === "" ? undefined : this.#parts.nft(sets),
    ]);
    await this.#parts.nft(fillChains(this.#facts, state));
  }

  /** Whether a command that failed has done its work is not known: all is said again. */
  async #goBack(before: Held, failed: Held, cause: unknown): Promise<never> {
    const { slot } = before;
    const earlier = [...before.earlier, failed];
    const { status, message, headers } = Fault.from(cause);
    try {
      this.#setJudge(slot, before.rules.egress);
      await this.#parts.nft(fillChains(this.#facts, before));
      await this.#tellRelay(slot, needsRelay(before.rules.egress) ? before.rules.egress : null);
      this.#held.set(slot, { ...before, earlier, isSure: true });
    } catch (error) {
      this.#held.set(slot, { ...before, earlier, isSure: false });
      complain("rules of a sandbox could not be taken back", error, slot);
      const either = "the old rules are enforced, or the new ones: say again what is to hold";
      throw new Fault(status, `the network rules could not be changed; ${either}: ${message}`, { cause, headers });
    }
    throw new Fault(status, `the network rules could not be changed, and are as before: ${message}`, {
      cause,
      headers,
    });
  }

  /**
   * What came through the relay under the rules before. The firewall lets the two speak to each other no more; this
   * also ends what the relay still has to pass on.
   */
  async #endRelayed({ slot, rules, earlier }: Held): Promise<void> {
    if (needsRelay(rules.egress) || !earlier.some((each) => needsRelay(each.rules.egress))) return;
    await this.#tellRelay(slot, null).catch((error) =>
      complain("the relay was not told that a sandbox is none of its business any more", error, slot),
    );
  }

  async #removeEarlier(slot: number): Promise<void> {
    const held = this.#held.get(slot);
    if (held === undefined || !held.isSure) return;
    try {
      const sets = removeSets(this.#facts, held.earlier);
      if (sets !== "") await this.#parts.nft(sets);
      this.#applied.delete(slot);
      await this.#openToRelay();
      held.earlier = [];
    } catch (error) {
      complain("earlier rules of a sandbox could not be removed", error, slot);
    }
  }

  /** What any slot has open, old rules and new ones alike. Which sandbox may use it, the relay itself knows. */
  async #openToRelay(): Promise<void> {
    await this.#openings.run(async () => {
      const spans = openedSpans([...this.#held.values(), ...this.#applied.values()]);
      if (spans.join() === this.#opened) return;
      await this.#parts.nft(replaceOpened(this.#parts.table, spans));
      this.#opened = spans.join();
    });
  }

  get #facts(): TableFacts {
    const { table, net } = this.#parts;
    return { table, net, relay: this.#relay };
  }

  #stateOf(slot: number, rules: SlotRules, earlier: readonly SlotState[] = []): Held {
    return { slot, rules, version: ++this.#versions, isSure: true, earlier };
  }

  #setJudge(slot: number, egress: Egress): void {
    const address = this.#parts.address(slot);
    if (egress === "open") this.#judges.delete(address);
    else this.#judges.set(address, egress === "closed" ? CLOSED : new EgressJudge(egress));
  }

  async #tellRelay(slot: number, policy: EgressPolicy | null): Promise<void> {
    await this.#relay?.set(this.#parts.address(slot), policy);
  }
}

function complain(event: string, error: unknown, slot: number): void {
  stderrLog.write({ level: "error", event, slot, error: described(error) });
}
