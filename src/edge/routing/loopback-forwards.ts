/**
 * Forwards to services that listen on a loopback address inside a sandbox. The guest opens one on request. The edge
 * remembers it for a short time, so that not every request is refused by the direct port first.
 */

import type { Directory } from "../../contract/internal/directory.ts";
import type { SandboxAddress } from "./sandbox-address.ts";

/** How long, and for how many ports, the edge remembers a forward. */
const EDGE_FORWARD_KEPT_MS = 10_000;
const EDGE_FORWARDS_KEPT = 4096;

interface Forward {
  host: string;
  port: number;
  untilMs: number;
}

export class LoopbackForwards {
  readonly #directory: Pick<Directory, "forward">;
  readonly #known = new Map<string, Forward>();
  readonly #asking = new Map<string, Promise<number | undefined>>();

  constructor(directory: Pick<Directory, "forward">) {
    this.#directory = directory;
  }

  /** The remembered port at the sandbox's host. A forward of an earlier host of this sandbox is not used. */
  known(asked: SandboxAddress, host: string): number | undefined {
    if (this.#known.size === 0) return undefined;
    const forward = this.#known.get(keyOf(asked));
    if (forward === undefined) return undefined;
    if (forward.host === host && forward.untilMs > performance.now()) return forward.port;
    this.#known.delete(keyOf(asked));
    return undefined;
  }

  /** Requests a forward. Concurrent requests share one call, later ones find it remembered. */
  async ask(asked: SandboxAddress, host: string): Promise<number | undefined> {
    const known = this.known(asked, host);
    if (known !== undefined) return known;
    const key = `${keyOf(asked)}@${host}`;
    const running = this.#asking.get(key);
    if (running !== undefined) return await running;
    const answer = this.#directory.forward(asked.sandboxId, asked.port);
    this.#asking.set(key, answer);
    try {
      const port = await answer;
      if (port !== undefined) this.#remember(asked, host, port);
      return port;
    } finally {
      this.#asking.delete(key);
    }
  }

  forget(asked: SandboxAddress): void {
    this.#known.delete(keyOf(asked));
  }

  #remember(asked: SandboxAddress, host: string, port: number): void {
    const key = keyOf(asked);
    this.#known.delete(key);
    if (this.#known.size >= EDGE_FORWARDS_KEPT) {
      // A Map iterates in insertion order: the first is the oldest.
      for (const oldest of this.#known.keys()) {
        this.#known.delete(oldest);
        break;
      }
    }
    this.#known.set(key, { host, port, untilMs: performance.now() + EDGE_FORWARD_KEPT_MS });
  }
}

function keyOf(asked: SandboxAddress): string {
  return `${asked.sandboxId}:${asked.port}`;
}
