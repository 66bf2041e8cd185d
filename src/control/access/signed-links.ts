/**
 * Whose file a signed link opens. With one address for all sandboxes a link names none, so the sandbox is found by
 * whose token made the signature. Every candidate is compared in full, whichever matches. Who guesses is soon
 * told to wait, but a signature that matches is never refused: many clients may share one address.
 */
import { timingSafeEqual } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { Fault } from "../../contract/fault.ts";
import { fileSignature, type SignedLink } from "../../contract/runtime/file-signature.ts";
import type { Store } from "../../store/store.ts";

/** Guesses at signed links: after so many misses in a window, a client waits. */
export const LINK_MISSES_MAX = 30;
export const LINK_MISSES_WINDOW_MS = 60_000;
const LINK_CLIENTS_MAX = 10_000;
/** How many sandboxes a link is compared with, the newest first. */
const LINK_SANDBOXES_MAX = 10_000;

interface Misses {
  count: number;
  since: number;
}

export class SignedLinks {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #misses = new Map<string, Misses>();

  constructor(services: { store: Store; clock: Clock }) {
    this.#store = services.store;
    this.#clock = services.clock;
  }

  /**
   * The id of the sandbox that the link opens, or undefined. It may be paused: then there is nothing to open, but
   * nobody has guessed either. `client` is the address of who asks.
   */
  async find(link: SignedLink, client: string): Promise<string | undefined> {
    const given = digest(link.signature);
    let found: string | undefined;
    for (const { id, tokens } of await this.#store.sandboxes.secured(this.#clock.now(), LINK_SANDBOXES_MAX)) {
      for (const token of tokens) if (timingSafeEqual(digest(fileSignature(link, token)), given)) found = id;
    }
    if (found === undefined) {
      this.#refuseGuesser(client);
      this.#note(client);
    }
    return found;
  }

  #refuseGuesser(client: string): void {
    const misses = this.#misses.get(client);
    if (misses === undefined) return;
    const leftMs = misses.since + LINK_MISSES_WINDOW_MS - this.#clock.now();
    if (leftMs <= 0) this.#misses.delete(client);
    else if (misses.count >= LINK_MISSES_MAX) {
      throw new Fault(429, "too many links with an invalid signature; wait before the next", {
        headers: { "retry-after": String(Math.ceil(leftMs / 1000)) },
      });
    }
  }

  #note(client: string): void {
    const misses = this.#misses.get(client);
    if (misses !== undefined) {
      misses.count += 1;
      return;
    }
    // The oldest goes; a client that comes back starts anew, which costs it less than it costs us to remember
    // everybody.
    const oldest = this.#misses.keys().next();
    if (this.#misses.size >= LINK_CLIENTS_MAX && !oldest.done) this.#misses.delete(oldest.value);
    this.#misses.set(client, { count: 1, since: this.#clock.now() });
  }
}

function digest(text: string): Uint8Array {
  return new Bun.CryptoHasher("sha256").update(text).digest();
}
