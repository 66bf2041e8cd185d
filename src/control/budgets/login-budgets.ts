/**
 * Limits how often passwords and keys may be tried: per network of the client, and per email address. A stranger can
 * use up both, so a browser in which the person has signed in before has a budget of its own.
 */
import type { Clock } from "../../base/clock.ts";
import { sha256 } from "../../base/sha256.ts";
import { Fault } from "../../contract/fault.ts";
import { networkOf } from "./request-rates.ts";
import { TokenBuckets } from "./token-buckets.ts";

export const LOGIN_TRIES_AT_ONCE = 10;
export const LOGIN_TRIES_PER_MINUTE = 6;
/** For one email address, as a multiple: one network cannot use it up. */
const NETWORKS_PER_EMAIL = 3;

const flow = (times: number) => ({
  burst: times * LOGIN_TRIES_AT_ONCE,
  perSecond: (times * LOGIN_TRIES_PER_MINUTE) / 60,
});
const FLOW = flow(1);
const EMAIL_FLOW = flow(NETWORKS_PER_EMAIL);
export const EMAIL_TRIES_AT_ONCE = EMAIL_FLOW.burst;
export const EMAIL_TRIES_PER_MINUTE = NETWORKS_PER_EMAIL * LOGIN_TRIES_PER_MINUTE;

interface Attempt {
  /** Address of the client. Undefined: its network is not counted. */
  address: string | undefined;
  /** The user whose password is tried. */
  email?: string;
  /** A browser in which this person has signed in. */
  browser?: string | undefined;
}

export class LoginBudgets {
  readonly #networks = new TokenBuckets();
  readonly #emails = new TokenBuckets();
  readonly #browsers = new TokenBuckets();
  readonly #returns = new TokenBuckets();

  constructor(private readonly clock: Clock) {}

  /** Fault 429 with Retry-After. */
  take({ address, email, browser }: Attempt): void {
    if (browser !== undefined) {
      this.#takeFrom(this.#browsers, browser, "this browser");
      return;
    }
    if (address !== undefined) this.#takeFrom(this.#networks, networkOf(address), "your network");
    // A text of any length is no key of a map.
    if (email !== undefined)
      this.#takeFrom(this.#emails, sha256(email.toLowerCase()), "this email address", EMAIL_FLOW);
  }

  /** For a browser that returns from the issuer, with a code that the issuer is asked about. */
  takeReturn(address: string | undefined): void {
    if (address !== undefined) this.#takeFrom(this.#returns, networkOf(address), "your network");
  }

  #takeFrom(buckets: TokenBuckets, owner: string, name: string, allowed = FLOW): void {
    const now = this.clock.now();
    const bucket = buckets.of(owner, allowed, now);
    if (bucket.take(1, now)) return;
    const seconds = Math.ceil(bucket.msUntil(1, now) / 1000);
    throw new Fault(429, `too many attempts to sign in from or with ${name}; try again in ${seconds} seconds`, {
      retryAfterSeconds: seconds,
    });
  }
}
