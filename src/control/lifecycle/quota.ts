/**
 * How many sandboxes of a team run at once. Rows say which hold a slot; a start takes one before it does anything and keeps it
 * until there is such a row. What is being ended holds none, for clients take it for gone and its end may need several tries;
 * what is being paused, resumed or copied holds one, and so does what waits to be paused at its end.
 */
import { Fault } from "../../contract/fault.ts";
import type { Team } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import type { Clock } from "../../work/clock.ts";

export interface Slot extends Disposable {
  /** Whose it is, as soon as that is known and before its row says that it runs: both together are one. */
  sandboxId: string | undefined;
}

interface TeamStarts {
  slots: Set<Slot>;
  /** Resolved when the next may look how many slots are free. */
  turn: Promise<unknown>;
}

export class Slots {
  readonly #rooms: { store: Store; clock: Clock };
  /** Never more than there are teams. */
  readonly #starts = new Map<string, TeamStarts>();

  constructor(rooms: { store: Store; clock: Clock }) {
    this.#rooms = rooms;
  }

  /** A slot for a new sandbox, or for the paused one that is named. Fault 403 for a blocked team, 429 when none is free. */
  async take(team: Team, sandboxId?: string): Promise<Slot> {
    const [slot] = await this.#take(team, 1, sandboxId);
    if (slot === undefined) throw limitReached(team);
    return slot;
  }

  /** As many as are free, up to `count`. Fault 403 for a blocked team. */
  takeUpTo(team: Team, count: number): Promise<Slot[]> {
    return this.#take(team, count, undefined);
  }

  async #take(team: Team, count: number, sandboxId: string | undefined): Promise<Slot[]> {
    if (team.limits.blocked) throw blocked();
    const starts = this.#startsOf(team);
    const take = (free: number) =>
      Array.from({ length: Math.min(count, free) }, () => newSlot(starts.slots, sandboxId));
    const { sandboxes: limit } = team.limits;
    if (limit === undefined) return take(count);
    // One after the other: between looking and taking nobody else may take.
    const taken = starts.turn.then(async () => take(Math.max(0, limit - (await this.#held(team, sandboxId)))));
    starts.turn = taken.catch(() => undefined);
    return taken;
  }

  /** How many slots are held, leaving aside that of the sandbox itself. */
  async #held(team: Team, sandboxId: string | undefined): Promise<number> {
    const { store, clock } = this.#rooms;
    // Before the rows are read: a start that ends meanwhile is here, or there, or in both and counted once.
    const starting = [...this.#startsOf(team).slots];
    const ids = new Set(await store.sandboxes.holdingSlots(team.id, clock.now()));
    const unnamed = starting.filter((slot) => slot.sandboxId === undefined);
    for (const { sandboxId: named } of starting) if (named !== undefined) ids.add(named);
    if (sandboxId !== undefined) ids.delete(sandboxId);
    return ids.size + unnamed.length;
  }

  #startsOf({ id }: Team): TeamStarts {
    const starts = this.#starts.get(id) ?? { slots: new Set(), turn: Promise.resolve() };
    this.#starts.set(id, starts);
    return starts;
  }
}

export function limitReached({ limits }: Team): Fault {
  const most = limits.sandboxes === 1 ? "1 sandbox" : `${limits.sandboxes} sandboxes`;
  return new Fault(
    429,
    `this team may run ${most} at once, and does; kill or pause one, or ask the operator of this server to allow more`,
  );
}

function blocked(): Fault {
  return new Fault(403, "this team is blocked: it may start no sandbox until the operator of this server allows it");
}

function newSlot(among: Set<Slot>, sandboxId: string | undefined): Slot {
  const slot: Slot = { sandboxId, [Symbol.dispose]: () => void among.delete(slot) };
  among.add(slot);
  return slot;
}
