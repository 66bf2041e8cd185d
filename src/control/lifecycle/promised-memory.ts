/**
 * Admission by promised memory: the memory sizes of all sandboxes of the server together stay within a bound that the
 * operator sets, as a multiple of the machine's memory. Without one, a machine may promise more than it has: sandboxes
 * rarely use all of their memory, but nothing keeps them from doing so at once.
 */
import { SerialQueue } from "../../base/serial-queue.ts";
import { Fault } from "../../contract/fault.ts";
import type { Store } from "../../store/store.ts";

export interface MemoryBound {
  /** Bound as a multiple of the machine's memory. */
  factor: number;
  machineMB: number;
}

/** Memory of a start in progress. */
interface Promised {
  sandboxId: string | undefined;
  memoryMB: number;
}

interface PromisedMemoryServices {
  store: Store;
  /** All starts in progress. */
  starting(): Promised[];
  /** Ids of sandboxes that were ended but still run. */
  runsOn(): string[];
}

/** Starts that fit, and the fault for the others. */
interface Room {
  count: number;
  refusal(): Fault;
}

/** Without a bound nothing is rejected. */
const NO_REFUSAL = () => new Fault(500, "memory has no bound");

export class PromisedMemory {
  /** No other start takes memory between counting and taking. */
  readonly #turns = new SerialQueue();

  constructor(
    private readonly bound: MemoryBound | undefined,
    private readonly services: PromisedMemoryServices,
  ) {}

  /** Calls `take` with the number of sandboxes of this size that fit, at most `count`; `take` registers them. */
  async within<T>(count: number, memoryMB: number, ownId: string | undefined, take: (room: Room) => T): Promise<T> {
    const { bound } = this;
    if (bound === undefined) return take({ count, refusal: NO_REFUSAL });
    return await this.#turns.run(async () => {
      const boundMB = Math.floor(bound.factor * bound.machineMB);
      const promisedMB = await this.#sum(ownId);
      const free = Math.max(0, Math.floor((boundMB - promisedMB) / memoryMB));
      return take({ count: Math.min(count, free), refusal: () => refusalOf(bound, boundMB, promisedMB, memoryMB) });
    });
  }

  /** Without the sandbox `ownId`. Starts are counted by their own memory, all other sandboxes by their rows. */
  async #sum(ownId: string | undefined): Promise<number> {
    const { store, runsOn } = this.services;
    const starting = this.services.starting();
    const ids = () => starting.flatMap(({ sandboxId }) => sandboxId ?? []);
    for (;;) {
      const named = ids();
      const own = ownId ?? "";
      const inRows = await store.sandboxes.promisedMemoryMB(runsOn(), [own].concat(named));
      // A start that got its id meanwhile may be among the rows as well. No start begins during this turn.
      if (ids().length > named.length) continue;
      // Two calls may resume the same sandbox, and one of them will fail.
      const each = new Map(starting.map((start) => [start.sandboxId ?? start, start.memoryMB]));
      each.delete(own);
      return [...each.values()].reduce((sum, memoryMB) => sum + memoryMB, inRows);
    }
  }
}

function refusalOf({ factor, machineMB }: MemoryBound, boundMB: number, promisedMB: number, memoryMB: number): Fault {
  const message =
    `Failed to place sandbox: SANDLOT_MEMORY_OVERCOMMIT=${factor} lets all sandboxes have ${boundMB} MB ` +
    `(the machine has ${machineMB} MB); running ones have ${promisedMB} MB, and this one needs ${memoryMB} MB; ` +
    "kill or pause some, or try again later";
  return new Fault(503, message, { errorCode: "sandbox_capacity_unavailable" });
}
