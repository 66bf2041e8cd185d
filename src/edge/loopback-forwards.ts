/**
 * The ways to services that listen on a loopback address inside a sandbox. The guest opens one when asked; it is remembered
 * for a short time, so that not every request has to be refused at the door first.
 */

import type { Destination } from "../control/directory.ts";
import { EDGE_FORWARD_KEPT_MS, EDGE_FORWARDS_KEPT } from "./limits.ts";
import type { SandboxAddress } from "./sandbox-address.ts";

interface Forward {
  address: string;
  port: number;
  untilMs: number;
}

export class LoopbackForwards {
  readonly #known = new Map<string, Forward>();
  readonly #asking = new Map<string, Promise<number | undefined>>();

  /** The remembered port at the sandbox's address. One remembered for an earlier address of this sandbox is not used. */
  known(asked: SandboxAddress, destination: Destination): number | undefined {
    if (this.#known.size === 0) return undefined;
    const forward = this.#known.get(keyOf(asked));
    if (forward === undefined) return undefined;
    if (forward.address === destination.address && forward.untilMs > performance.now()) return forward.port;
    this.#known.delete(keyOf(asked));
    return undefined;
  }

  /** Asks the sandbox for a way. Requests that arrive meanwhile wait for the same answer, later ones find it known. */
  async ask(asked: SandboxAddress, destination: Destination): Promise<number | undefined> {
    const known = this.known(asked, destination);
    if (known !== undefined) return known;
    const key = `${keyOf(asked)}@${destination.address}`;
    const running = this.#asking.get(key);
    if (running !== undefined) return await running;
    const answer = destination.forward(asked.port);
    this.#asking.set(key, answer);
    try {
      const port = await answer;
      if (port !== undefined) this.#remember(asked, destination.address, port);
      return port;
    } finally {
      this.#asking.delete(key);
    }
  }

  forget(asked: SandboxAddress): void {
    this.#known.delete(keyOf(asked));
  }

  #remember(asked: SandboxAddress, address: string, port: number): void {
    const key = keyOf(asked);
    this.#known.delete(key);
    if (this.#known.size >= EDGE_FORWARDS_KEPT) {
      // A Map iterates in the order of insertion: the first is the oldest.
      for (const oldest of this.#known.keys()) {
        this.#known.delete(oldest);
        break;
      }
    }
    this.#known.set(key, { address, port, untilMs: performance.now() + EDGE_FORWARD_KEPT_MS });
  }
}

function keyOf(asked: SandboxAddress): string {
  return `${asked.sandboxId}:${asked.port}`;
}
