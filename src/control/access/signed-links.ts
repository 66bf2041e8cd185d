/**
 * Finds the sandbox of a signed link. With one address for all sandboxes a link names none, so the sandbox is the one
 * whose token made the signature. Every candidate is compared in full, so timing reveals nothing. After some wrong
 * signatures a client gets a Retry-After, but a matching one is never rejected: many clients may share one address.
 */
import { timingSafeEqual } from "node:crypto";
import { Fault } from "../../contract/fault.ts";
import { fileSignature, type SignedLink } from "../../contract/runtime/file-signature.ts";
import type { Parts } from "../parts.ts";
import { digest } from "./credentials.ts";

/** Wrong signatures that a client may send within a window before it has to wait. */
export const LINK_MISSES_MAX = 30;
export const LINK_MISSES_WINDOW_MS = 60_000;
const LINK_CLIENTS_MAX = 10_000;
/** Sandboxes that a link is compared with, newest first. */
const LINK_SANDBOXES_MAX = 10_000;

interface Misses {
  count: number;
  since: number;
}

export class SignedLinks {
  readonly #misses = new Map<string, Misses>();

  constructor(private readonly parts: Pick<Parts, "store" | "clock">) {}

  /**
   * The id of the sandbox that the link opens, or undefined. The sandbox may be paused; the signature is still valid
   * and no guess. `client` is the caller's address.
   */
  async find(link: SignedLink, client: string): Promise<string | undefined> {
    const given = digest(link.signature);
    let found: string | undefined;
    for (const { id, tokens } of await this.parts.store.sandboxes.secured(this.parts.clock.now(), LINK_SANDBOXES_MAX)) {
      for (const token of tokens) if (timingSafeEqual(digest(fileSignature(link, token)), given)) found = id;
    }
    if (found === undefined) {
      this.#requireFewMisses(client);
      this.#note(client);
    }
    return found;
  }

  #requireFewMisses(client: string): void {
    const misses = this.#misses.get(client);
    if (misses === undefined) return;
    const leftMs = misses.since + LINK_MISSES_WINDOW_MS - this.parts.clock.now();
    if (leftMs <= 0) this.#misses.delete(client);
    else if (misses.count >= LINK_MISSES_MAX) {
      throw new Fault(429, "too many links with an invalid signature; wait before the next", {
        retryAfterSeconds: Math.ceil(leftMs / 1000),
      });
    }
  }

  #note(client: string): void {
    const misses = this.#misses.get(client);
    if (misses !== undefined) {
      misses.count += 1;
      return;
    }
    // Evicts the oldest client. If it returns, it starts with a clean count, which bounds the memory of this map.
    const oldest = this.#misses.keys().next();
    if (this.#misses.size >= LINK_CLIENTS_MAX && !oldest.done) this.#misses.delete(oldest.value);
    this.#misses.set(client, { count: 1, since: this.parts.clock.now() });
  }
}
