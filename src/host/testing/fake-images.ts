/** The images of a host that only remembers. Those that it began with are built in and never go. */
import { Fault } from "../../contract/fault.ts";
import type { BuildOutcome, BuildRequest } from "../../contract/internal/host.ts";

export class FakeImages {
  /** Of builds whose outcome may not be written down yet: kept until named. A test empties it, as time does. */
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

/** A build that ends well, with an image of its own. */
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
