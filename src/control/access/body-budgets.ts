/**
 * Budgets for the JSON bodies of a team or a user: bytes in memory, bytes of all teams together, and bytes per second,
 * because parsing takes the server's only thread.
 */

import type { Clock } from "../../base/clock.ts";
import { TokenBucket } from "../../base/token-bucket.ts";
import { Fault } from "../../contract/fault.ts";
import { REQUEST_BUDGETS_MAX } from "../limits.ts";

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

interface Account {
  inMemory: number;
  bucket: TokenBucket;
}

export class BodyBudgets {
  readonly #clock: Clock;
  readonly #accounts = new Map<string, Account>();
  #inMemory = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Call it before the first byte of a body arrives. */
  begin(owner: BodyOwner): BodyShare {
    const account = this.#accountOf(owner.id);
    return new BodyShare({
      take: (bytes) => this.#take(owner.name, account, bytes),
      giveBack: (bytes) => {
        account.inMemory -= bytes;
        this.#inMemory -= bytes;
      },
    });
  }

  #take(name: string, account: Account, bytes: number): void {
    if (account.inMemory + bytes > BODIES_PER_TEAM_MAX_BYTES) {
      throw refusal(`${name} may have ${BODIES_PER_TEAM_MAX_BYTES} bytes of request bodies under way, and sent more`);
    }
    if (this.#inMemory + bytes > BODIES_MAX_BYTES) {
      throw refusal(`this server takes ${BODIES_MAX_BYTES} bytes of request bodies at once, and has them`);
    }
    const now = this.#clock.now();
    if (!account.bucket.take(bytes, now)) {
      const waitMs = account.bucket.msUntil(bytes, now);
      const why = `${name} may send ${FLOW.perSecond} bytes of request bodies each second, and sent more`;
      throw refusal(why, Math.ceil(waitMs / 1000));
    }
    account.inMemory += bytes;
    this.#inMemory += bytes;
  }

  #accountOf(id: string): Account {
    const account = this.#accounts.get(id) ?? { inMemory: 0, bucket: new TokenBucket(FLOW, this.#clock.now()) };
    this.#accounts.delete(id);
    if (this.#accounts.size >= REQUEST_BUDGETS_MAX) this.#forgetOne();
    this.#accounts.set(id, account);
    return account;
  }

  /** Drops the least recently used account that holds no bytes. */
  #forgetOne(): void {
    for (const [id, { inMemory }] of this.#accounts) {
      if (inMemory > 0) continue;
      this.#accounts.delete(id);
      return;
    }
  }
}

interface Costs {
  take(bytes: number): void;
  giveBack(bytes: number): void;
}

/** The bytes of one body, until it is disposed. */
export class BodyShare implements Disposable {
  readonly #costs: Costs;
  #bytes = 0;

  constructor(costs: Costs) {
    this.#costs = costs;
  }

  /** Adds received bytes. Fault 429 when they exceed a budget. */
  grow(bytes: number): void {
    this.#costs.take(bytes);
    this.#bytes += bytes;
  }

  [Symbol.dispose](): void {
    this.#costs.giveBack(this.#bytes);
    this.#bytes = 0;
  }
}

function refusal(why: string, retryAfterSeconds = BODIES_RETRY_AFTER_SECONDS): Fault {
  return new Fault(429, `${why}; send less at once, or try again after Retry-After seconds`, {
    headers: { "Retry-After": String(Math.max(retryAfterSeconds, BODIES_RETRY_AFTER_SECONDS)) },
  });
}
