/**
 * Concurrent sandboxes per team. Rows say which sandboxes hold a lease. A start takes a lease first and keeps it until
 * its row says that it runs. A sandbox that is being paused, resumed or copied holds a lease, as does one that waits
 * for its automatic pause. An ended sandbox holds none, because clients regard it as gone and its removal may need
 * several attempts; it does hold one while the host says that it still runs and uses the machine.
 */

import { OneAtATimeByKey } from "../../base/one-at-a-time.ts";
import { Fault } from "../../contract/fault.ts";
import type { Team } from "../../store/people.ts";
import type { Parts } from "../parts.ts";

export interface Lease extends Disposable {
  /** Set as soon as the id is known, before the row says that it runs: the lease and the row then count as one. */
  sandboxId: string | undefined;
}

interface QuotaServices extends Pick<Parts, "store" | "clock"> {
  /** Ids of a team's sandboxes that were ended but still run. */
  runsOn(teamId: string): string[];
}

export class Quota {
  /** At most one entry per team. */
  readonly #starts = new Map<string, Set<Lease>>();
  /** Per team, so that no other start takes a lease between counting and taking. */
  readonly #turns = new OneAtATimeByKey();

  constructor(private readonly services: QuotaServices) {}

  /** A lease for a new sandbox, or for the named paused one. Fault 403 for a blocked team, 429 when none is free. */
  async take(team: Team, sandboxId?: string): Promise<Lease> {
    const [lease] = await this.#take(team, 1, sandboxId);
    if (lease === undefined) throw limitReached(team);
    return lease;
  }

  /** As many as are free, up to `count`. Fault 403 for a blocked team. */
  takeUpTo(team: Team, count: number): Promise<Lease[]> {
    return this.#take(team, count, undefined);
  }

  async #take(team: Team, count: number, sandboxId: string | undefined): Promise<Lease[]> {
    if (team.limits.blocked) throw blocked();
    const leases = this.#leasesOf(team);
    const take = (free: number) => Array.from({ length: Math.min(count, free) }, () => newLease(leases, sandboxId));
    const { sandboxes: limit } = team.limits;
    if (limit === undefined) return take(count);
    return this.#turns.run(team.id, async () => take(Math.max(0, limit - (await this.#held(team, sandboxId)))));
  }

  /** Leases held, without that of the sandbox itself. */
  async #held(team: Team, sandboxId: string | undefined): Promise<number> {
    const { store, clock, runsOn } = this.services;
    // Read before the rows: a start that finishes meanwhile is in one of the two, or in both and counted once.
    const starting = [...this.#leasesOf(team)];
    const ids = new Set([...(await store.sandboxes.holdingQuota(team.id, clock.now())), ...runsOn(team.id)]);
    const unnamed = starting.filter((lease) => lease.sandboxId === undefined);
    for (const { sandboxId: named } of starting) if (named !== undefined) ids.add(named);
    if (sandboxId !== undefined) ids.delete(sandboxId);
    return ids.size + unnamed.length;
  }

  #leasesOf({ id }: Team): Set<Lease> {
    const leases = this.#starts.get(id) ?? new Set();
    this.#starts.set(id, leases);
    return leases;
  }
}

export function limitReached({ limits }: Team): Fault {
  const most = limits.sandboxes === 1 ? "1 sandbox" : `${limits.sandboxes} sandboxes`;
  return new Fault(
    429,
    `this team already runs ${most}, its limit; kill or pause one, or ask the operator of this server to allow more`,
  );
}

function blocked(): Fault {
  return new Fault(403, "this team is blocked: it may start no sandbox until the operator of this server allows it");
}

function newLease(among: Set<Lease>, sandboxId: string | undefined): Lease {
  const lease: Lease = { sandboxId, [Symbol.dispose]: () => void among.delete(lease) };
  among.add(lease);
  return lease;
}
