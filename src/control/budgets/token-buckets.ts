/** Token buckets by owner. An owner that is forgotten starts again with a full one, which bounds their memory. */
import { type Flow, TokenBucket } from "../../base/token-bucket.ts";

export const TOKEN_BUCKETS_MAX = 10_000;

export class TokenBuckets {
  /** Least recently used first. */
  readonly #buckets = new Map<string, { perSecond: number; bucket: TokenBucket }>();

  /** With another rate than before, as when the operator changes a limit, the owner's bucket is full. */
  of(owner: string, flow: Flow, now: number): TokenBucket {
    const known = this.#buckets.get(owner);
    const isSame = known?.perSecond === flow.perSecond;
    const { bucket } = isSame ? known : { bucket: new TokenBucket(flow, now) };
    this.#buckets.delete(owner);
    const oldest = this.#buckets.keys().next();
    if (this.#buckets.size >= TOKEN_BUCKETS_MAX && !oldest.done) this.#buckets.delete(oldest.value);
    this.#buckets.set(owner, { perSecond: flow.perSecond, bucket });
    return bucket;
  }
}
