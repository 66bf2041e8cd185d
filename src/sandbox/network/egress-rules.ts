/**
 * The network rules of each sandbox, kept in the three places that enforce them: the matcher that the DNS relay
 * consults, the connection relay, and the firewall, which decides which connections reach that relay. A change is
 * complete when all three have it. In between, each place has either the old or the new rules, so traffic that both
 * forbid never passes. Traffic that both allow always finds the relay ready: it learns of a sandbox before the firewall
 * redirects connections to it, and forgets it afterwards.
 */
import { described, stderrLog } from "../../base/log.ts";
import { KeyedQueue, SerialQueue } from "../../base/serial-queue.ts";
import { Fault } from "../../contract/fault.ts";
import type { Egress, EgressPolicy } from "../../contract/internal/host.ts";
import { EgressMatcher } from "../../egress/egress-matcher.ts";
import type { EgressRelay } from "../../egress/egress-relay.ts";
import { openedSpans, replaceOpened } from "./ruleset.ts";
import {
  fillChains,
  makeSets,
  needsRelay,
  OPEN,
  type OpenAddress,
  removeSets,
  type SlotRules,
  type SlotState,
  type TableFacts,
} from "./slot-chains.ts";

/** The relay that decides by host name and connects through proxies. */
export type ConnectionRelay = Pick<EgressRelay, "uid" | "ports" | "set" | "setClosed" | "answerRule" | "close">;

interface EgressRulesParts {
  table: string;
  net: number;
  address(slot: number): string;
  nft(script: string): Promise<void>;
}

interface Held extends SlotState {
  /** False: a change failed, and so did its rollback. */
  isSure: boolean;
  /** Earlier states whose nftables sets may still exist. */
  earlier: readonly SlotState[];
}

const CLOSED = new EgressMatcher({ allowRanges: [], allowNames: [], denyRanges: ["0.0.0.0/0"], proxy: null });

export class EgressRules {
  readonly #turns = new KeyedQueue();
  /** States of slots that ever had rules. */
  readonly #held = new Map<number, Held>();
  readonly #matchers = new Map<string, EgressMatcher>();
  #relay: ConnectionRelay | undefined;
  #versions = 0;
  /** States being applied, by slot. */
  readonly #applied = new Map<number, SlotState>();
  readonly #openings = new SerialQueue();
  /** The private networks that the relay may reach, as the table has them. */
  #opened = "";

  constructor(private readonly parts: EgressRulesParts) {}

  matcherOf(address: string): EgressMatcher | undefined {
    return this.#matchers.get(address);
  }

  /** The states that a new table starts with. */
  get slots(): readonly SlotState[] {
    return [...this.#held.values()];
  }

  get relay(): ConnectionRelay | undefined {
    return this.#relay;
  }

  /** Takes over the rules of a sandbox that was found running, before the table is made. */
  adopt(slot: number, egress: Egress): void {
    if (egress !== "open") this.#held.set(slot, this.#stateOf(slot, { egress, openAddresses: [] }));
  }

  /** Sets the relay that decides by names, and tells it all adopted rules. */
  async use(relay: ConnectionRelay | undefined): Promise<void> {
    this.#relay = relay;
    // The table is created with these ranges.
    this.#opened = openedSpans(this.slots).join();
    await Promise.all(
      [...this.#held.values()].map(async ({ slot, rules: { egress } }) => {
        this.#setMatcher(slot, egress);
        if (needsRelay(egress)) await this.#tellRelay(slot, egress);
      }),
    );
  }

  /** When it throws, the previous rules apply, or the error says that either may apply. */
  async set(slot: number, egress: Egress): Promise<void> {
    await this.#inTurn(slot, ({ openAddresses }) => ({ egress, openAddresses }));
  }

  async grant(slot: number, openAddresses: readonly OpenAddress[]): Promise<void> {
    await this.#inTurn(slot, ({ egress }) => ({ egress, openAddresses }));
  }

  /** Resets a slot to no rules. Resolves when nothing of the old ones is left. */
  async forget(slot: number): Promise<void> {
    await this.#turns.run(String(slot), async () => {
      await this.#change(slot, OPEN);
      await this.#removeEarlier(slot);
      this.#held.delete(slot);
    });
  }

  /** Resolves when no change is in progress. */
  async settled(): Promise<void> {
    await this.#turns.settled();
  }

  /** The caller continues as soon as the new rules apply. Remains of the previous rules are removed afterwards. */
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
      await this.#rollBack(before, next, cause);
    }
    this.#held.set(slot, next);
    await this.#endRelayed(next);
  }

  async #apply(state: SlotState): Promise<void> {
    const { slot, rules } = state;
    const sets = makeSets(this.#facts, state);
    this.#setMatcher(slot, rules.egress);
    this.#applied.set(slot, state);
    await Promise.all([
      this.#openToRelay(),
      needsRelay(rules.egress) ? this.#tellRelay(slot, rules.egress) : undefined,
      sets === "" ? undefined : this.parts.nft(sets),
    ]);
    await this.parts.nft(fillChains(this.#facts, state));
  }

  /** A failed command may still have taken effect, so the rollback sets everything again. */
  async #rollBack(before: Held, failed: Held, cause: unknown): Promise<never> {
    const { slot } = before;
    const earlier = [...before.earlier, failed];
    const { status, message, headers } = Fault.from(cause);
    try {
      this.#setMatcher(slot, before.rules.egress);
      await this.parts.nft(fillChains(this.#facts, before));
      await this.#tellRelay(slot, needsRelay(before.rules.egress) ? before.rules.egress : null);
      this.#held.set(slot, { ...before, earlier, isSure: true });
    } catch (error) {
      this.#held.set(slot, { ...before, earlier, isSure: false });
      logFailure("network rules of a sandbox could not be undone", error, slot);
      const either = "the old rules are enforced, or the new ones: say again what is to hold";
      throw new Fault(status, `the network rules could not be changed; ${either}: ${message}`, { cause, headers });
    }
    throw new Fault(status, `the network rules could not be changed, and are as before: ${message}`, {
      cause,
      headers,
    });
  }

  /**
   * Ends connections that went through the relay under the previous rules. The firewall already separates the sandbox
   * from the relay; this also drops data that the relay has yet to forward.
   */
  async #endRelayed({ slot, rules, earlier }: Held): Promise<void> {
    if (needsRelay(rules.egress) || !earlier.some((each) => needsRelay(each.rules.egress))) return;
    await this.#tellRelay(slot, null).catch((error) =>
      logFailure("the relay could not drop the rules of a sandbox", error, slot),
    );
  }

  async #removeEarlier(slot: number): Promise<void> {
    const held = this.#held.get(slot);
    if (held === undefined || !held.isSure) return;
    try {
      const sets = removeSets(this.#facts, held.earlier);
      if (sets !== "") await this.parts.nft(sets);
      this.#applied.delete(slot);
      await this.#openToRelay();
      held.earlier = [];
    } catch (error) {
      logFailure("earlier rules of a sandbox could not be removed", error, slot);
    }
  }

  /** Opens the private networks of all slots, old rules and new. The relay knows which sandbox may use which. */
  async #openToRelay(): Promise<void> {
    await this.#openings.run(async () => {
      const spans = openedSpans([...this.#held.values(), ...this.#applied.values()]);
      if (spans.join() === this.#opened) return;
      await this.parts.nft(replaceOpened(this.parts.table, spans));
      this.#opened = spans.join();
    });
  }

  get #facts(): TableFacts {
    const { table, net } = this.parts;
    return { table, net, relay: this.#relay };
  }

  #stateOf(slot: number, rules: SlotRules, earlier: readonly SlotState[] = []): Held {
    return { slot, rules, version: ++this.#versions, isSure: true, earlier };
  }

  #setMatcher(slot: number, egress: Egress): void {
    const address = this.parts.address(slot);
    if (egress === "open") this.#matchers.delete(address);
    else this.#matchers.set(address, egress === "closed" ? CLOSED : new EgressMatcher(egress));
  }

  async #tellRelay(slot: number, policy: EgressPolicy | null): Promise<void> {
    await this.#relay?.set(this.parts.address(slot), policy);
  }
}

function logFailure(event: string, error: unknown, slot: number): void {
  stderrLog.write({ level: "error", event, slot, error: described(error) });
}
