/** Limits how often passwords and keys may be tried: per network of the client, and per email address. */
import type { Clock } from "../../base/clock.ts";
import { Fault } from "../../contract/fault.ts";
import { networkOf } from "../access/request-rates.ts";
import { TokenBuckets } from "../access/token-buckets.ts";

export const LOGIN_TRIES_AT_ONCE = 10;
export const LOGIN_TRIES_PER_MINUTE = 6;

const FLOW = { burst: LOGIN_TRIES_AT_ONCE, perSecond: LOGIN_TRIES_PER_MINUTE / 60 };

export class LoginBudgets {
  readonly #networks = new TokenBuckets();
  readonly #users = new TokenBuckets();

  constructor(private readonly clock: Clock) {}

  /** Fault 429 with Retry-After. Without an address only the email address counts. */
  take(address: string | undefined, email?: string): void {
    if (address !== undefined) this.#takeFrom(this.#networks, networkOf(address), "your network");
    if (email !== undefined) this.#takeFrom(this.#users, email.toLowerCase(), "this email address");
  }

  #takeFrom(buckets: TokenBuckets, owner: string, name: string): void {
    const now = this.clock.now();
    const bucket = buckets.of(owner, FLOW, now);
    if (bucket.take(1, now)) return;
    const seconds = Math.ceil(bucket.msUntil(1, now) / 1000);
    throw new Fault(429, `too many attempts to sign in from or with ${name}; try again in ${seconds} seconds`, {
      headers: { "Retry-After": String(seconds) },
    });
  }
}
