/**
 * Changes the egress rules of a running sandbox. A row is marked before the host call and takes the new rules after the
 * host enforces them. Whatever comes between (a pause, a copy, a failure, a crash), the row says which rules hold from
 * the next run on. Where the host may enforce other rules, it gets the row's rules again until that succeeds. Changes
 * of one sandbox run one after the other, so the last change confirmed to a client holds.
 */
import { KeyedLimit } from "../../../base/keyed-limit.ts";
import { described } from "../../../base/log.ts";
import { RetryQueue } from "../../../base/retry-queue.ts";
import { KeyedQueue } from "../../../base/serial-queue.ts";
import { Fault } from "../../../contract/fault.ts";
import type { Team } from "../../../store/people.ts";
import type { EgressSettings, Sandbox, SandboxNetwork } from "../../../store/sandboxes.ts";
import { egressOf, requireOpenProxy } from "../egress.ts";
import { egressFault } from "../host-fault.ts";
import type { LifecycleCore } from "../lifecycle-core.ts";

/** Queued changes of the egress rules of one sandbox. */
export const EGRESS_CHANGES_WAITING_MAX = 32;
/** A failed repair of egress rules is retried after the first delay, doubling up to the second. */
export const EGRESS_REPAIR_RETRY_MIN_MS = 1_000;
const EGRESS_REPAIR_RETRY_MAX_MS = 60_000;
const EGRESS_REPAIRS_AT_ONCE = 8;

/** Replaces all egress settings; absent fields are unset. */
export interface EgressChange {
  egress: EgressSettings;
  /** Null: unchanged. */
  allowInternetAccess: boolean | null;
}

export class EgressChanges {
  readonly #turns = new KeyedQueue();
  readonly #waiting = new KeyedLimit(EGRESS_CHANGES_WAITING_MAX);
  readonly #repairs: RetryQueue<string>;
  /** Sandboxes whose rules the host gets again even if their rows are not marked. */
  readonly #toRenew = new Set<string>();
  /** Ids in the repair queue. */
  readonly #toRepair = new Set<string>();

  constructor(private readonly core: LifecycleCore) {
    this.#repairs = new RetryQueue<string>({
      clock: core.clock,
      background: core.background,
      work: (id) => this.#turns.run(id, () => this.#repair(id)),
      failed(id, error) {
        const event = "network rules of a sandbox could not be sent to the host";
        core.log.write({ level: "error", event, sandbox: id, error: described(error) });
      },
      atOnce: EGRESS_REPAIRS_AT_ONCE,
      retryMinMs: EGRESS_REPAIR_RETRY_MIN_MS,
      retryMaxMs: EGRESS_REPAIR_RETRY_MAX_MS,
    });
  }

  /** Resolves when the new rules hold. Undefined: the sandbox no longer runs, so look again. */
  async apply(sandbox: Sandbox, change: EgressChange): Promise<Sandbox | undefined> {
    const { id } = sandbox;
    if (!this.#waiting.add(id)) throw tooMany(id);
    try {
      return await this.#turns.run(id, () => this.#apply(sandbox, change));
    } finally {
      this.#waiting.remove(id);
    }
  }

  /** The host may enforce other rules for these sandboxes than their rows say. */
  repair(ids: readonly string[]): void {
    const others = ids.filter((id) => !this.#toRepair.has(id));
    for (const id of others) this.#toRepair.add(id);
    this.#repairs.enqueue(others);
  }

  /** Call it when the private networks of the team may have changed. The rows stay as they are. */
  async renew(teamId: string): Promise<void> {
    const ids = await this.core.store.egressChanges.runningOf(teamId);
    for (const id of ids) this.#toRenew.add(id);
    this.repair(ids);
  }

  /** Fault 400 when these rules could let no connection out. */
  async requirePossible({ id: teamId }: Pick<Team, "id">, { egress }: EgressChange): Promise<void> {
    await requireOpenProxy(this.core, teamId, egress, "egressProxy");
  }

  close(): void {
    this.#repairs.close();
  }

  async #apply(sandbox: Sandbox, { egress, allowInternetAccess }: EgressChange): Promise<Sandbox | undefined> {
    const { store, host, clock, log, listener } = this.core;
    const begun = await store.egressChanges.begin(sandbox, clock.now());
    if (begun === undefined) return undefined;
    const to = {
      network: { ...ingressOf(begun.network), ...egress },
      allowInternetAccess: allowInternetAccess ?? begun.allowInternetAccess,
    };
    try {
      await host.setEgress(begun.id, egressOf(to, await this.core.privateRangesOf(begun.teamId)));
    } catch (cause) {
      return await this.#failed(begun, cause);
    }
    const changed = await this.core.untilRecorded("a change of network rules", () =>
      store.egressChanges.finish(begun, to),
    );
    if (changed === undefined) return undefined;
    log.write({ level: "info", event: "network rules changed", sandbox: begun.id });
    listener.onEvent("updated", changed, "its network rules were changed");
    return changed;
  }

  async #failed(begun: Sandbox, cause: unknown): Promise<undefined> {
    const { store } = this.core;
    const row = await this.core.untilRecorded("a change of network rules", () => store.sandboxes.byId(begun.id));
    // Another call has begun a transition meanwhile. Its outcome, not the host's error, decides the response.
    if (row?.state !== "running" || row.executionId !== begun.executionId) return undefined;
    throw egressFault(cause, begun.id);
  }

  async #repair(id: string): Promise<void> {
    const { store, host } = this.core;
    const row = await store.sandboxes.byId(id);
    // A sandbox that does not run starts its next run with the rules of its row.
    const isRunning = row?.state === "running" || row?.state === "pausing" || row?.state === "snapshotting";
    if (isRunning && (row.egressUnsettled || this.#toRenew.has(id))) {
      await host.setEgress(id, egressOf(row, await this.core.privateRangesOf(row.teamId)));
      if (row.egressUnsettled) await store.egressChanges.settle(row);
    }
    this.#toRenew.delete(id);
    this.#toRepair.delete(id);
  }
}

function ingressOf({
  allowOut: _,
  denyOut: __,
  egressProxy: ___,
  rules: ____,
  ...ingress
}: SandboxNetwork): SandboxNetwork {
  return ingress;
}

function tooMany(id: string): Fault {
  return new Fault(429, `too many changes of the network rules of sandbox "${id}" wait; try again in a moment`, {
    retryAfterSeconds: 1,
  });
}
