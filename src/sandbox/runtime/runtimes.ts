/** All walls of this machine by their names, and what is asked of each of them alike. */
import { Fault } from "../../contract/fault.ts";
import type { Wall } from "../../contract/wall.ts";
import type { Runtime } from "./runtime.ts";

/** What there was before there was a choice: what does not say its wall has this one. */
export const FIRST_WALL: Wall = "crun";

export class Runtimes {
  readonly #runtimes: Readonly<Partial<Record<Wall, Runtime>>>;

  /** `usual` is for sandboxes of which nobody said anything. */
  constructor(
    readonly usual: Wall,
    runtimes: Readonly<Partial<Record<Wall, Runtime>>>,
  ) {
    this.#runtimes = runtimes;
  }

  nameFor({ wall }: { wall?: Wall }): Wall {
    return wall ?? this.usual;
  }

  of(wall: Wall): Runtime {
    const runtime = this.#runtimes[wall];
    if (runtime === undefined) throw new Fault(501, `this server has no isolation runtime ${wall}`);
    return runtime;
  }

  /** Whichever it was behind, where that is not known. */
  async remove(id: string, withinMs?: number, wall?: Wall): Promise<void> {
    const known = wall === undefined ? undefined : this.#runtimes[wall];
    for (const runtime of known === undefined ? this.#all : [known]) await runtime.remove(id, withinMs);
  }

  async list(): Promise<string[]> {
    const lists = await Promise.all(this.#all.map((runtime) => runtime.list()));
    return [...new Set(lists.flat())];
  }

  async recover(): Promise<void> {
    await Promise.all(this.#all.map((runtime) => runtime.recover()));
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((runtime) => runtime.close?.()));
  }

  get #all(): Runtime[] {
    return Object.values(this.#runtimes);
  }
}
