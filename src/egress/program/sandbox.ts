/**
 * A sandbox, as the relay knows it: what may leave it, its connections, and its share of the memory. One that has used
 * up its share is not read from until enough of it was taken: it holds up nobody but itself.
 */
import { TokenBucket } from "../../base/token-bucket.ts";
import type { EgressPolicy } from "../../contract/internal/host.ts";
import { EgressJudge } from "../egress-judge.ts";
import type { Bounds } from "./bounds.ts";
import { NameClient, type NameServer } from "./name-client.ts";

/** What all sandboxes share. */
export interface Commons {
  readonly bounds: Bounds;
  readonly nameServer: NameServer;
  /** Whether an address is closed to every sandbox, now. */
  isClosed(address: string): boolean;
  report(source: string, message: string): void;
  /** Of what waits in memory, as much as each sandbox may have now. */
  shareBytes(): number;
}

/** One of its connections. */
export interface Carried {
  readonly movedAt: number;
  /** Something waits to be taken from it. */
  readonly isStalled: boolean;
  /** Whether what it was let through for is allowed now. */
  mayGoOn(): boolean;
  cut(): void;
  stop(): void;
  goOn(): void;
}

export class Sandbox {
  readonly flows = new Set<Carried>();
  readonly names: NameClient;
  /** Flows that are not connected further yet. */
  waiting = 0;
  readonly #arrivals: TokenBucket;
  #judge: EgressJudge;
  #heldBytes = 0;
  #isFull = false;
  /** Connections that failed and were not reported yet. */
  #failed = 0;
  #silentUntil = 0;

  constructor(
    readonly commons: Commons,
    policy: EgressPolicy,
    readonly source = "",
  ) {
    this.#judge = new EgressJudge(policy);
    this.names = new NameClient(commons.nameServer);
    const { newBurst, newPerSecond } = commons.bounds;
    this.#arrivals = new TokenBucket({ burst: newBurst, perSecond: newPerSecond }, performance.now());
  }

  /** Tells why its connections fail: at once, then at most once in a while, with how many failed since. */
  complain(why: string): void {
    const now = performance.now();
    this.#failed += 1;
    if (now < this.#silentUntil) return;
    const others = this.#failed === 1 ? "" : ` (${this.#failed} connections failed since this was last reported)`;
    this.commons.report(this.source, `${why}${others}`);
    this.#failed = 0;
    this.#silentUntil = now + this.commons.bounds.reportEveryMs;
  }

  isClosed(address: string): boolean {
    return this.commons.isClosed(address) && !this.#judge.opens(address);
  }

  get judge(): EgressJudge {
    return this.#judge;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  /** Of a new connection: how long others come first, so that a flood of them is nobody else's business. */
  arrivalDelayMs(): number {
    const now = performance.now();
    return this.#arrivals.charge(1, now) ? 0 : this.#arrivals.msUntil(0, now);
  }

  /** From now on this holds; what it forbids is cut. */
  setPolicy(policy: EgressPolicy): void {
    this.#judge = new EgressJudge(policy);
    this.#silentUntil = 0;
    this.cutForbidden();
  }

  cutForbidden(): void {
    for (const flow of this.flows) if (!flow.mayGoOn()) flow.cut();
  }

  cutAll(): void {
    for (const flow of this.flows) flow.cut();
  }

  held(bytes: number): void {
    this.#heldBytes += bytes;
    const share = this.commons.shareBytes();
    if (!this.#isFull && this.#heldBytes > share) {
      this.#isFull = true;
      for (const flow of this.flows) flow.stop();
    } else if (this.#isFull && this.#heldBytes <= share / 2) {
      this.#isFull = false;
      for (const flow of this.flows) {
        flow.goOn();
        // What waited in that one may have made it full again: by then all are stopped, and stay so.
        if (this.#isFull) break;
      }
    }
  }
}
