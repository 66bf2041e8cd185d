/**
 * Certificates for names with header rules, on the server's side. Each takes processor time of the whole machine, and a
 * sandbox chooses the names, so they are kept, and new ones are limited for each sandbox and in total. Sandboxes share
 * none, because the time of its making would reveal that another one uses a name, and since when.
 */
import { described } from "../base/log.ts";
import { Semaphore } from "../base/semaphore.ts";
import { TokenBucket } from "../base/token-bucket.ts";
import type { RuleCertificate } from "./relay-messages.ts";

/** New certificates of one sandbox: at once, and sustained. */
export const RULE_CERTIFICATES_BURST = 50;
export const RULE_CERTIFICATES_PER_SECOND = 1;
/** Certificates that are made at the same time. */
const RULE_CERTIFICATES_AT_ONCE = 2;
const RULE_CERTIFICATES_KEPT_MAX = 16_384;
const RULE_CERTIFICATES_KEPT_PER_SANDBOX_MAX = 256;
/** Much shorter than their validity. */
const RULE_CERTIFICATE_KEPT_MS = 24 * 3_600_000;

interface Kept {
  made: Promise<string>;
  until: number;
}

export class RuleCertificates {
  /** By `keyOf`; the oldest first. */
  readonly #kept = new Map<string, Kept>();
  /** By the sandbox's address. A full bucket is the same as none. */
  readonly #buckets = new Map<string, TokenBucket>();
  readonly #turns = new Semaphore(RULE_CERTIFICATES_AT_ONCE);

  constructor(
    private readonly authority: { certificateFor(name: string): Promise<string> },
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** `source`: the address of the sandbox that needs it. */
  async get(source: string, name: string): Promise<RuleCertificate> {
    const now = this.now();
    const key = keyOf(source, name);
    let kept = this.#kept.get(key);
    if (kept === undefined || kept.until <= now) {
      if (!this.#bucketOf(source, now).take(1, now)) {
        const most = `${RULE_CERTIFICATES_BURST} at once, then ${RULE_CERTIFICATES_PER_SECOND} each second`;
        return { failure: `the sandbox needs too many certificates for new names (${most})` };
      }
      kept = { made: this.#make(source, name), until: now + RULE_CERTIFICATE_KEPT_MS };
      this.#keep(source, key, kept);
    }
    try {
      return { certificatePem: await kept.made };
    } catch (thrown) {
      if (this.#kept.get(key) === kept) this.#kept.delete(key);
      return { failure: described(thrown) };
    }
  }

  async #make(source: string, name: string): Promise<string> {
    using _turn = await this.#turns.acquire(source);
    return await this.authority.certificateFor(name);
  }

  /** The address gets another sandbox. */
  forget(source: string): void {
    for (const key of this.#keysOf(source)) this.#kept.delete(key);
  }

  #keep(source: string, key: string, kept: Kept): void {
    this.#kept.delete(key);
    const own = this.#keysOf(source);
    let oldest: string | undefined;
    if (own.length >= RULE_CERTIFICATES_KEPT_PER_SANDBOX_MAX) [oldest] = own;
    else if (this.#kept.size >= RULE_CERTIFICATES_KEPT_MAX) [oldest] = this.#kept.keys();
    if (oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.set(key, kept);
  }

  #keysOf(source: string): string[] {
    return [...this.#kept.keys()].filter((key) => key.startsWith(keyOf(source, "")));
  }

  #bucketOf(source: string, now: number): TokenBucket {
    const known = this.#buckets.get(source);
    if (known !== undefined) return known;
    for (const [other, bucket] of this.#buckets) if (bucket.isFull(now)) this.#buckets.delete(other);
    const flow = { burst: RULE_CERTIFICATES_BURST, perSecond: RULE_CERTIFICATES_PER_SECOND };
    const bucket = new TokenBucket(flow, now);
    this.#buckets.set(source, bucket);
    return bucket;
  }
}

function keyOf(source: string, name: string): string {
  return `${source} ${name}`;
}
