/**
 * Concurrent sandboxes per team. Rows say which sandboxes hold a lease. A start takes a lease first and keeps it until
 * its row says that it runs. A sandbox that is being paused, resumed or copied holds a lease, as does one that waits
 * for its automatic pause. An ended sandbox holds none, because clients regard it as gone and its removal may need
 * several attempts; it does hold one while the host says that it still runs and uses the machine.
 *
 * Every new run takes a lease, so the bounds of the whole machine's memory are checked here too.
 */
import { KeyedQueue } from "../../base/serial-queue.ts";
import { Fault } from "../../contract/fault.ts";
import type { Team } from "../../store/people.ts";
import type { Parts } from "../parts.ts";
import { type MemoryBound, PromisedMemory } from "./promised-memory.ts";

export interface Lease extends Disposable {
  /** Set as soon as the id is known, before the row says that it runs: the lease and the row then count as one. */
  sandboxId: string | undefined;
  readonly memoryMB: number;
}

/** The sandbox that a lease is for. */
interface Wanted {
  memoryMB: number;
  /** Only of a paused one. */
  id?: string;
}

interface QuotaServices extends Pick<Parts, "store" | "clock"> {
  /** Ids of sandboxes that were ended but still run: of this team, or of all. */
  runsOn(teamId?: string): string[];
  /** Absent: sandboxes may be promised any amount of memory. */
  memoryBound: MemoryBound | undefined;
  /** Fault 503 while the machine is short of memory, or drained. */
  requireRoom(): void;
}

export class Quota {
  /** At most one entry per team. */
  readonly #starts = new Map<string, Set<Lease>>();
  /** Per team, so that no other start takes a lease between counting and taking. */
  readonly #turns = new KeyedQueue();

  readonly #memory: PromisedMemory;

  constructor(private readonly services: QuotaServices) {
    const { store, runsOn, memoryBound } = services;
    const starting = () => [...this.#starts.values()].flatMap((leases) => [...leases]);
    this.#memory = new PromisedMemory(memoryBound, { store, runsOn, starting });
  }

  /** Leases of all teams. */
  get starting(): number {
    return [...this.#starts.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** Fault 403 for a blocked team, 429 at the team's limit, 503 when the machine's memory does not allow another. */
  async take(team: Team, wanted: Wanted): Promise<Lease> {
    const { leases, refusal } = await this.takeUpTo(team, 1, wanted);
    const [lease] = leases;
    if (lease === undefined) throw refusal();
    return lease;
  }

  /** As many as are free, up to `count`, and the fault for the others. Fault 403 for a blocked team. */
  async takeUpTo(team: Team, count: number, wanted: Wanted): Promise<{ leases: Lease[]; refusal(): Fault }> {
    if (team.limits.blocked) throw blocked();
    this.services.requireRoom();
    const { sandboxes: limit } = team.limits;
    if (limit === undefined) return this.#takeFor(team, count, wanted);
    return this.#turns.run(team.id, async () => {
      const free = Math.max(0, limit - (await this.#held(team, wanted.id)));
      const taken = await this.#takeFor(team, Math.min(count, free), wanted);
      return taken.leases.length < Math.min(count, free) ? taken : { ...taken, refusal: () => limitReached(team) };
    });
  }

  /** Bounded by memory alone. */
  #takeFor(team: Team, count: number, { memoryMB, id }: Wanted): Promise<{ leases: Lease[]; refusal(): Fault }> {
    const among = this.#leasesOf(team);
    return this.#memory.within(count, memoryMB, id, ({ count: free, refusal }) => ({
      leases: Array.from({ length: free }, () => newLease(among, memoryMB, id)),
      refusal,
    }));
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

/** Fault 400 when the copies would never fit beside the original. */
export function requireForkWithinLimit({ limits }: Team, count: number): void {
  if (limits.sandboxes === undefined || count < limits.sandboxes) return;
  throw new Fault(
    400,
    `this team may run ${sandboxes(limits)} at once, including the original; count must be less, got ${count}`,
  );
}

function limitReached({ limits }: Team): Fault {
  return new Fault(
    429,
    `this team already runs ${sandboxes(limits)}, its limit; kill or pause one, or ask the operator of this server to allow more`,
  );
}

function sandboxes({ sandboxes: max }: Team["limits"]): string {
  return max === 1 ? "1 sandbox" : `${max} sandboxes`;
}

function blocked(): Fault {
  return new Fault(403, "this team is blocked: it may start no sandbox until the operator of this server allows it");
}

function newLease(among: Set<Lease>, memoryMB: number, sandboxId: string | undefined): Lease {
  const lease: Lease = { sandboxId, memoryMB, [Symbol.dispose]: () => void among.delete(lease) };
  among.add(lease);
  return lease;
}
