/**
 * Changes of what may leave a running sandbox. A row is marked before the host is told and takes the new rules after
 * the host has enforced them; whatever comes between, be it a pause, a copy, a failure or a crash, the row says what
 * holds from the next run on. Where the host may have begun to do something else, it is told again what the row says,
 * until it does that. Changes of one sandbox come one after the other, so the last one that is answered holds.
 */

import { described } from "../../../base/log.ts";
import { OneAtATimeByKey } from "../../../base/one-at-a-time.ts";
import { RetryQueue } from "../../../base/retry-queue.ts";
import { Fault } from "../../../contract/fault.ts";
import type { Team } from "../../../store/people.ts";
import type { EgressSettings, SandboxNetwork } from "../../../store/sandbox-network.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";
import { demandOpenProxy, egressOf } from "../egress.ts";
import { egressFault } from "../host-fault.ts";
import type { LifecycleCore } from "../lifecycle-core.ts";

/** Changes of what may leave one sandbox that wait for each other. */
export const EGRESS_CHANGES_WAITING_MAX = 32;
/** A host that could not be told what may leave a sandbox is told again after the first of these, doubling. */
export const EGRESS_REPAIR_RETRY_MIN_MS = 1_000;
const EGRESS_REPAIR_RETRY_MAX_MS = 60_000;
const EGRESS_REPAIRS_AT_ONCE = 8;

/** All of it is new; what is absent is said no longer. */
export interface EgressChange {
  egress: EgressSettings;
  /** Null: as it was. */
  allowInternetAccess: boolean | null;
}

export class EgressChanges {
  readonly #core: LifecycleCore;
  readonly #turns = new OneAtATimeByKey();
  readonly #waiting = new Map<string, number>();
  readonly #repairs: RetryQueue<string>;
  /** Of these the host is told again, whether or not their rows are marked. */
  readonly #toRenew = new Set<string>();
  /** What is in that queue. */
  readonly #toRepair = new Set<string>();

  constructor(core: LifecycleCore) {
    this.#core = core;
    this.#repairs = new RetryQueue<string>({
      clock: core.clock,
      background: core.background,
      work: (id) => this.#turns.run(id, () => this.#repair(id)),
      failed(id, error) {
        const event = "the host could not be told what may leave a sandbox";
        core.log.write({ level: "error", event, sandbox: id, error: described(error) });
      },
      atOnce: EGRESS_REPAIRS_AT_ONCE,
      retryMinMs: EGRESS_REPAIR_RETRY_MIN_MS,
      retryMaxMs: EGRESS_REPAIR_RETRY_MAX_MS,
    });
  }

  /** Resolves when the new rules hold. Undefined: the sandbox does not run any more, so look again. */
  async apply(sandbox: Sandbox, change: EgressChange): Promise<Sandbox | undefined> {
    const { id } = sandbox;
    const waiting = this.#waiting.get(id) ?? 0;
    if (waiting >= EGRESS_CHANGES_WAITING_MAX) throw tooMany(id);
    this.#waiting.set(id, waiting + 1);
    try {
      return await this.#turns.run(id, () => this.#apply(sandbox, change));
    } finally {
      const left = (this.#waiting.get(id) ?? 1) - 1;
      if (left === 0) this.#waiting.delete(id);
      else this.#waiting.set(id, left);
    }
  }

  /** Of these sandboxes the host may do something else than their rows say. */
  repair(ids: readonly string[]): void {
    const others = ids.filter((id) => !this.#toRepair.has(id));
    for (const id of others) this.#toRepair.add(id);
    this.#repairs.enqueue(others);
  }

  /** What is open to running sandboxes of the team may be something else than before; their rows say the same. */
  async renew(teamId: string): Promise<void> {
    const ids = await this.#core.store.egressChanges.runningOf(teamId);
    for (const id of ids) this.#toRenew.add(id);
    this.repair(ids);
  }

  /** Fault 400 when no connection could leave by such rules. */
  async demandPossible({ id: teamId }: Pick<Team, "id">, { egress }: EgressChange): Promise<void> {
    await demandOpenProxy(this.#core, teamId, egress, "egressProxy");
  }

  close(): void {
    this.#repairs.close();
  }

  async #apply(sandbox: Sandbox, { egress, allowInternetAccess }: EgressChange): Promise<Sandbox | undefined> {
    const { store, host, clock, log, listener } = this.#core;
    const begun = await store.egressChanges.begin(sandbox, clock.now());
    if (begun === undefined) return undefined;
    const to = {
      network: { ...ingressOf(begun.network), ...egress },
      allowInternetAccess: allowInternetAccess ?? begun.allowInternetAccess,
    };
    try {
      await host.setEgress(begun.id, egressOf(to, await this.#core.privateRangesOf(begun.teamId)));
    } catch (cause) {
      return await this.#failed(begun, cause);
    }
    const changed = await this.#core.untilRecorded("a change of network rules", () =>
      store.egressChanges.finish(begun, to),
    );
    if (changed === undefined) return undefined;
    log.write({ level: "info", event: "network rules changed", sandbox: begun.id });
    listener.tell("updated", changed, "its network rules were changed");
    return changed;
  }

  async #failed(begun: Sandbox, cause: unknown): Promise<undefined> {
    const { store } = this.#core;
    const row = await this.#core.untilRecorded("a change of network rules", () => store.sandboxes.byId(begun.id));
    // Somebody has taken it in hand meanwhile. What it comes to, not the host's word, is what is answered.
    if (row?.state !== "running" || row.executionId !== begun.executionId) return undefined;
    throw egressFault(cause, begun.id);
  }

  async #repair(id: string): Promise<void> {
    const { store, host } = this.#core;
    const row = await store.sandboxes.byId(id);
    // What does not run begins its next run with what the row says.
    const isRunning = row?.state === "running" || row?.state === "pausing" || row?.state === "snapshotting";
    if (isRunning && (row.egressUnsettled || this.#toRenew.has(id))) {
      await host.setEgress(id, egressOf(row, await this.#core.privateRangesOf(row.teamId)));
      if (row.egressUnsettled) await store.egressChanges.settle(row);
    }
    this.#toRenew.delete(id);
    this.#toRepair.delete(id);
  }
}

function ingressOf({ allowOut: _, denyOut: __, egressProxy: ___, ...ingress }: SandboxNetwork): SandboxNetwork {
  return ingress;
}

function tooMany(id: string): Fault {
  const headers = { "retry-after": "1" };
  return new Fault(429, `too many changes of the network rules of sandbox "${id}" wait; try again in a moment`, {
    headers,
  });
}
