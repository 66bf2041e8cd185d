/**
 * A sandbox's state in the relay: its policy, its connections and its share of memory. A sandbox that exceeds its share
 * is not read until enough is written, so that it delays only itself.
 */
import type { EventCounts } from "../../base/event-counts.ts";
import { TokenBucket } from "../../base/token-bucket.ts";
import type { EgressPolicy } from "../../contract/internal/host.ts";
import { EgressMatcher } from "../egress-matcher.ts";
import type { Bounds } from "./bounds.ts";
import { NameClient, type NameServer } from "./name-client.ts";
import type { RuleServer } from "./rule-server.ts";

/** State that all sandboxes share. */
export interface SharedState {
  readonly bounds: Bounds;
  readonly nameServer: NameServer;
  /** Whether an address is currently closed to every sandbox. */
  isClosed(address: string): boolean;
  report(source: string, message: string): void;
  /** Counts outcomes of connections. */
  readonly decisions: EventCounts;
  /** Bytes that each sandbox may currently buffer. */
  shareBytes(): number;
  /** Undefined: the server offers no header rules. */
  readonly rules: RuleServer | undefined;
  /** Counts a connection in the total until the result is called. */
  counted(): () => void;
  /** Connections with HTTP/2 inside TLS, of all sandboxes. */
  http2Connections: number;
}

export interface RelayedFlow {
  readonly movedAt: number;
  /** Whether it has bytes that the other end has not read. */
  readonly isStalled: boolean;
  /** Whether the current policy allows its destination. */
  isAllowed(): boolean;
  cut(): void;
  pauseForShare(): void;
  resumeForShare(): void;
}

export class SandboxTraffic {
  readonly flows = new Set<RelayedFlow>();
  readonly names: NameClient;
  /** Flows that have no upstream yet. */
  waiting = 0;
  http2Connections = 0;
  readonly #arrivals: TokenBucket;
  readonly #ruled: TokenBucket;
  readonly #intercepted: TokenBucket;
  #matcher: EgressMatcher;
  #heldBytes = 0;
  #isFull = false;
  /** Failed connections since the last report. */
  #failed = 0;
  #silentUntil = 0;

  constructor(
    readonly shared: SharedState,
    policy: EgressPolicy,
    readonly source = "",
  ) {
    this.#matcher = new EgressMatcher(policy);
    this.names = new NameClient(shared.nameServer);
    const { newBurst, newPerSecond, ruledBurst, ruledPerSecond, interceptedBurst, interceptedPerSecond } =
      shared.bounds;
    const now = performance.now();
    this.#ruled = new TokenBucket({ burst: ruledBurst, perSecond: ruledPerSecond }, now);
    this.#intercepted = new TokenBucket({ burst: interceptedBurst, perSecond: interceptedPerSecond }, now);
    this.#arrivals = new TokenBucket({ burst: newBurst, perSecond: newPerSecond }, now);
  }

  /** Reports why connections fail: at once, then at intervals with the number of failures since. */
  reportFailure(why: string): void {
    const now = performance.now();
    this.#failed += 1;
    if (now < this.#silentUntil) return;
    const others = this.#failed === 1 ? "" : ` (${this.#failed} connections failed since this was last reported)`;
    this.shared.report(this.source, `${why}${others}`);
    this.#failed = 0;
    this.#silentUntil = now + this.shared.bounds.reportEveryMs;
  }

  isClosed(address: string): boolean {
    return this.shared.isClosed(address) && !this.#matcher.opensPrivate(address);
  }

  get matcher(): EgressMatcher {
    return this.#matcher;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  /** Each holds much more memory than other connections. */
  get hasRoomForHttp2(): boolean {
    const { http2Connections, http2PerSandbox } = this.shared.bounds;
    return this.shared.http2Connections < http2Connections && this.http2Connections < http2PerSandbox;
  }

  countHttp2(by: 1 | -1): void {
    this.http2Connections += by;
    this.shared.http2Connections += by;
  }

  /** How long to delay a new connection, so that a flood of them does not affect other sandboxes. */
  arrivalDelayMs(): number {
    const now = performance.now();
    return this.#arrivals.charge(1, now) ? 0 : this.#arrivals.msUntil(0, now);
  }

  /**
   * How long to delay a request that needs the headers of a rule, so that a flood of them does not slow the server.
   * Undefined: so many are delayed that it must fail.
   */
  ruledDelayMs(): number | undefined {
    return boundedDelayMs(this.#ruled, this.shared.bounds.ruledBurst);
  }

  /** The same for a connection to a name with a rule. */
  interceptedDelayMs(): number | undefined {
    return boundedDelayMs(this.#intercepted, this.shared.bounds.interceptedBurst);
  }

  /** Applies the policy and cuts the connections that it forbids. */
  setPolicy(policy: EgressPolicy): void {
    this.#matcher = new EgressMatcher(policy);
    this.#silentUntil = 0;
    this.cutForbidden();
  }

  cutForbidden(): void {
    for (const flow of this.flows) if (!flow.isAllowed()) flow.cut();
  }

  cutAll(): void {
    for (const flow of this.flows) flow.cut();
  }

  held(bytes: number): void {
    this.#heldBytes += bytes;
    const share = this.shared.shareBytes();
    if (!this.#isFull && this.#heldBytes > share) {
      this.#isFull = true;
      for (const flow of this.flows) flow.pauseForShare();
    } else if (this.#isFull && this.#heldBytes <= share / 2) {
      this.#isFull = false;
      for (const flow of this.flows) {
        flow.resumeForShare();
        // Bytes that this flow had buffered may have filled the share again; then all flows are stopped.
        if (this.#isFull) break;
      }
    }
  }
}

/** A bucket's debt is at most its burst: beyond it, a delay would no longer slow the flood. */
function boundedDelayMs(bucket: TokenBucket, burst: number): number | undefined {
  const now = performance.now();
  if (bucket.level(now) < 1 - burst) return undefined;
  return bucket.charge(1, now) ? 0 : bucket.msUntil(0, now);
}
