/** All isolation runtimes of this machine by name, with operations that apply to each. */
import { Fault } from "../../contract/fault.ts";
import type { RuntimeName } from "../../contract/runtime-name.ts";
import type { Runtime } from "./runtime.ts";

export class Runtimes {
  /** `usual` is for sandboxes without an explicit choice. */
  constructor(
    readonly usual: RuntimeName,
    private readonly runtimes: Readonly<Partial<Record<RuntimeName, Runtime>>>,
  ) {}

  nameFor({ wall }: { wall?: RuntimeName }): RuntimeName {
    return wall ?? this.usual;
  }

  of(name: RuntimeName): Runtime {
    const runtime = this.runtimes[name];
    if (runtime === undefined) throw new Fault(501, `this server has no isolation runtime ${name}`);
    return runtime;
  }

  /** Removes the sandbox from all runtimes if its own is unknown. */
  async remove(id: string, withinMs?: number, name?: RuntimeName): Promise<void> {
    const known = name === undefined ? undefined : this.runtimes[name];
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
    return Object.values(this.runtimes);
  }
}
