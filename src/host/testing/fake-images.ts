/** The images of the fake host. Those it starts with are built in and never removed. */
import { Fault } from "../../contract/fault.ts";
import type { BuildOutcome, BuildRequest } from "../../contract/internal/host.ts";

export class FakeImages {
  /** Images of recent builds, kept until the caller names them. A test empties the set, as time would. */
  readonly fresh = new Set<string>();
  readonly #builtIn: readonly string[];
  readonly #there: Set<string>;

  constructor(builtIn: readonly string[]) {
    this.#builtIn = builtIn;
    this.#there = new Set(builtIn);
  }

  get names(): string[] {
    return [...this.#there];
  }

  demand(name: string): void {
    if (!this.#there.has(name)) throw new Fault(404, `the image "${name}" is not on this machine`);
  }

  add(name: string): void {
    this.#there.add(name);
    this.fresh.add(name);
  }

  collect(keep: readonly string[], inUse: readonly string[]): void {
    for (const name of keep) this.fresh.delete(name);
    const needed = new Set([...this.#builtIn, ...keep, ...this.fresh, ...inUse]);
    for (const name of this.#there) if (!needed.has(name)) this.#there.delete(name);
  }
}

/** A successful build with its own image. */
export function builtAs({ id, from }: BuildRequest): BuildOutcome {
  return {
    isReady: true,
    image: `image-${id}`,
    defaultUser: "user",
    defaultWorkdir: "/home/user",
    envVars: from.kind === "template" ? from.envVars : {},
    checkpoint: null,
  };
}
