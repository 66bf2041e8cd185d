/**
 * A sandbox, as the relay knows it: what may leave it, its connections, and its share of the memory. One that has used
 * up its share is not read from until enough of it was taken: it holds up nobody but itself.
 */
import { TokenBucket } from "../../../work/token-bucket.ts";
import type { EgressPolicy } from "../../host.ts";
import { EgressJudge } from "../egress-judge.ts";
import type { Bounds } from "./bounds.ts";
import { NameClient, type NameServer } from "./name-client.ts";

/** What all sandboxes share. */
export interface Commons {
  readonly bounds: Bounds;
  readonly nameServer: NameServer;
  /** Whether an address is closed to every sandbox, now. */
  isClosed(address: string): boolean;
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

  constructor(
    readonly commons: Commons,
    policy: EgressPolicy,
  ) {
    this.#judge = new EgressJudge(policy);
    this.names = new NameClient(commons.nameServer);
    const { newBurst, newPerSecond } = commons.bounds;
    this.#arrivals = new TokenBucket({ burst: newBurst, perSecond: newPerSecond }, performance.now());
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
