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
  /** A forward of an earlier host of this sandbox is not used. */
  host: string;
  /** Requests that arrive before the guest has answered wait for the same answer. */
  port: Promise<number | undefined>;
  untilMs: number;
}

export class LoopbackForwards {
  readonly #known = new Map<string, Forward>();

  constructor(readonly directory: Pick<Directory, "forward">) {}

  /** The remembered port at the sandbox's host. */
  known(address: SandboxAddress, host: string): Promise<number | undefined> | undefined {
    const forward = this.#known.get(keyOf(address));
    return forward?.host === host && forward.untilMs > performance.now() ? forward.port : undefined;
  }

  /** The remembered forward, or one that the guest opens now. */
  async ask(address: SandboxAddress, host: string): Promise<number | undefined> {
    const known = this.known(address, host);
    if (known !== undefined) return await known;
    // A Map iterates in insertion order: the first is the oldest.
    const [oldest = ""] = this.#known.keys();
    if (this.#known.size >= EDGE_FORWARDS_KEPT) this.#known.delete(oldest);
    const port = this.directory.forward(address.sandboxId, address.port);
    this.#known.delete(keyOf(address));
    this.#known.set(keyOf(address), { host, port, untilMs: performance.now() + EDGE_FORWARD_KEPT_MS });
    let found: number | undefined;
    try {
      found = await port;
      return found;
    } finally {
      if (found === undefined) this.forget(address);
    }
  }

  forget(address: SandboxAddress): void {
    this.#known.delete(keyOf(address));
  }
}

function keyOf(address: SandboxAddress): string {
  return `${address.sandboxId}:${address.port}`;
}
