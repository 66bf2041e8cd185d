/** All isolation runtimes of this machine by name, with operations that apply to each. */
import { Fault } from "../../contract/fault.ts";
import type { Wall } from "../../contract/wall.ts";
import type { Runtime } from "./runtime.ts";

/** The runtime of records and checkpoints that name none; older servers had only this one. */
export const FIRST_WALL: Wall = "crun";

export class Runtimes {
  readonly #runtimes: Readonly<Partial<Record<Wall, Runtime>>>;

  /** `usual` is for sandboxes without an explicit choice. */
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

  /** Removes the sandbox from all runtimes if its own is unknown. */
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
