/**
 * Budgets for the JSON bodies of a team or a user: bytes in memory, bytes of all teams together, and bytes per second,
 * because parsing takes the server's only thread.
 */
import type { Clock } from "../../base/clock.ts";
import { Fault } from "../../contract/fault.ts";
import { TokenBuckets } from "./token-buckets.ts";

/** Bytes of bodies whose requests have no response yet: per team, and of all teams. */
export const BODIES_PER_TEAM_MAX_BYTES = 16 * 1024 * 1024;
export const BODIES_MAX_BYTES = 64 * 1024 * 1024;
const BODIES_RETRY_AFTER_SECONDS = 1;
/** Body bytes per team: burst, and sustained rate per second. Parsing takes the server's only thread. */
export const BODY_BYTES_PER_TEAM_BURST = 16 * 1024 * 1024;
export const BODY_BYTES_PER_TEAM_PER_SECOND = 2 * 1024 * 1024;

const FLOW = { burst: BODY_BYTES_PER_TEAM_BURST, perSecond: BODY_BYTES_PER_TEAM_PER_SECOND };

interface BodyOwner {
  id: string;
  name: string;
}

/** The bytes of one body, until it is disposed. */
export interface BodyShare extends Disposable {
  /** Adds received bytes. Fault 429 when they exceed a budget. */
  grow(bytes: number): void;
}

export class BodyBudgets {
  readonly #buckets = new TokenBuckets();
  /** Bytes in memory: by owner, while there are any, and in total. */
  readonly #held = new Map<string, number>();
  #total = 0;

  constructor(private readonly clock: Clock) {}

  /** Call it before the first byte of a body arrives. */
  begin(owner: BodyOwner): BodyShare {
    let bytes = 0;
    return {
      grow: (more) => {
        this.#refuseBeyond(owner, more);
        this.#hold(owner.id, more);
        bytes += more;
      },
      [Symbol.dispose]: () => {
        this.#hold(owner.id, -bytes);
        bytes = 0;
      },
    };
  }

  #hold(id: string, bytes: number): void {
    const held = (this.#held.get(id) ?? 0) + bytes;
    if (held === 0) this.#held.delete(id);
    else this.#held.set(id, held);
    this.#total += bytes;
  }

  #refuseBeyond({ id, name }: BodyOwner, bytes: number): void {
    if ((this.#held.get(id) ?? 0) + bytes > BODIES_PER_TEAM_MAX_BYTES) {
      throw refusal(`${name} may have ${BODIES_PER_TEAM_MAX_BYTES} bytes of request bodies under way, and sent more`);
    }
    if (this.#total + bytes > BODIES_MAX_BYTES) {
      throw refusal(`this server takes ${BODIES_MAX_BYTES} bytes of request bodies at once, and has them`);
    }
    const now = this.clock.now();
    const bucket = this.#buckets.of(id, FLOW, now);
    if (bucket.take(bytes, now)) return;
    const why = `${name} may send ${FLOW.perSecond} bytes of request bodies each second, and sent more`;
    throw refusal(why, Math.ceil(bucket.msUntil(bytes, now) / 1000));
  }
}

function refusal(why: string, retryAfterSeconds = BODIES_RETRY_AFTER_SECONDS): Fault {
  return new Fault(429, `${why}; send less at once, or try again after Retry-After seconds`, {
    retryAfterSeconds: Math.max(retryAfterSeconds, BODIES_RETRY_AFTER_SECONDS),
  });
}
