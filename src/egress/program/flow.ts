/**
 * One connection of a sandbox and its upstream. It counts until both ends and all pending dials are gone. A flow can be
 * cut during any wait, so callers check `isOver` after each.
 */
import { dial } from "./dial.ts";
import { Peer, type PeerOwner, type TlsOutcome, type TlsSide } from "./peer.ts";
import type { RelayedFlow, SandboxTraffic } from "./sandbox-traffic.ts";
import { connectThroughProxy } from "./socks.ts";

/** Addresses of a name to try. */
const RELAY_DIAL_ADDRESSES_MAX = 4;

/** The destination that the policy allowed. */
type Purpose = { name: string } | { address: string };

/** The name in a TLS hello, and the pattern of its header rule if it has one. */
interface NamedBy {
  name: string;
  rule: string | undefined;
}

export type NotReached = "forbidden" | "unknown" | "closed" | "silent" | "over";

export class Flow implements PeerOwner, RelayedFlow {
  readonly client: Peer;
  upstream: Peer | undefined;
  isOver = false;
  movedAt = performance.now();
  /** Set for TLS connections: the flow is cut when the name gets a header rule, or another one. */
  named: NamedBy | undefined;
  #purpose: Purpose | undefined;
  /** The addresses dialled for the purpose: destination and proxy. */
  #address: string | undefined;
  #proxy: string | undefined;
  #proxyAddress: string | undefined;
  /** The proxy or the site during its handshake. */
  #handshaking: Peer | undefined;
  #isWaiting = true;
  #heldBytes = 0;
  /** Bytes buffered until the destination is known. */
  #collectedBytes = 0;
  /** Open ends and pending dials. */
  #open = 1;
  #timer: Timer | undefined;
  /** Called when nothing of the flow is open any more, unlike events of its ends: a full share delays those. */
  readonly #gone: (() => void)[];

  constructor(
    readonly sandbox: SandboxTraffic,
    socket: Bun.Socket<Peer | undefined>,
    gone: () => void,
  ) {
    this.#gone = [gone];
    sandbox.flows.add(this);
    sandbox.waiting += 1;
    this.client = new Peer(socket, this);
    if (sandbox.isFull) this.client.pauseForShare();
  }

  /** Cuts the flow after this time unless another call comes first. Undefined: no deadline. */
  expect(withinMs: number | undefined, late: () => void = () => this.cut()): void {
    clearTimeout(this.#timer);
    this.#timer = withinMs === undefined ? undefined : setTimeout(late, withinMs);
  }

  isAllowed(): boolean {
    const { matcher } = this.sandbox;
    if (this.named !== undefined && matcher.ruleOf(this.named.name) !== this.named.rule) return false;
    if (this.#purpose === undefined) return true;
    for (const address of [this.#address, this.#proxyAddress]) {
      if (address !== undefined && this.sandbox.isClosed(address)) return false;
    }
    if (this.#proxy !== undefined && this.#proxy !== JSON.stringify(matcher.policy.proxy)) return false;
    if ("name" in this.#purpose && matcher.allowsName(this.#purpose.name)) return true;
    const address = "address" in this.#purpose ? this.#purpose.address : this.#address;
    // While the name is resolved: each address is checked before it is dialled.
    if (address === undefined) return this.#mayReach(this.#purpose);
    return matcher.allowsAddress(address);
  }

  /** Opens a connection to the destination if the policy allows it. The returned peer is paused. */
  async reach(purpose: Purpose, port: number): Promise<Peer | NotReached> {
    const outcome = await this.#reach(purpose, port);
    this.sandbox.shared.decisions.add(typeof outcome === "string" ? outcome : "allowed");
    return outcome;
  }

  async #reach(purpose: Purpose, port: number): Promise<Peer | NotReached> {
    const { matcher, shared, names } = this.sandbox;
    if (!this.#mayReach(purpose)) return "forbidden";
    this.#purpose = purpose;
    this.#address = undefined;
    this.#proxy = JSON.stringify(matcher.policy.proxy);
    this.#proxyAddress = undefined;
    const deadline = performance.now() + shared.bounds.dialMs;
    const addresses = "name" in purpose ? await names.resolve(purpose.name) : [purpose.address];
    if (this.isOver) return "over";
    if (addresses.length === 0) return "unknown";
    const isByName = "name" in purpose && matcher.allowsName(purpose.name);
    let why: NotReached = "closed";
    for (const address of addresses.slice(0, RELAY_DIAL_ADDRESSES_MAX)) {
      if (this.sandbox.isClosed(address)) continue;
      if (!isByName && !matcher.allowsAddress(address)) {
        why = "forbidden";
        continue;
      }
      if (performance.now() >= deadline) break;
      why = "silent";
      this.#address = address;
      const peer = await this.#connect(address, port, deadline);
      if (this.isOver) {
        peer?.cut();
        return "over";
      }
      if (peer === undefined) continue;
      this.upstream = peer;
      this.#settle();
      if (this.sandbox.isFull) peer.pauseForShare();
      return peer;
    }
    return why;
  }

  /** A name with a header rule need not be allowed by name: its addresses may be. */
  #mayReach(purpose: Purpose): boolean {
    const { matcher } = this.sandbox;
    if ("address" in purpose) return matcher.allowsAddress(purpose.address);
    if (matcher.allowsName(purpose.name)) return true;
    return this.named?.rule !== undefined && matcher.mayResolve(purpose.name);
  }

  /** Continues the upstream under TLS. A failed handshake closes it, and the flow goes on without an upstream. */
  async secureUpstream(side: TlsSide): Promise<TlsOutcome> {
    const peer = this.upstream;
    if (peer === undefined) return { failure: "there is no connection" };
    this.upstream = undefined;
    this.#handshaking = peer;
    const late = setTimeout(() => peer.cut(), this.sandbox.shared.bounds.helloMs);
    const outcome = await peer.startTls(side).finally(() => clearTimeout(late));
    this.#handshaking = undefined;
    if ("failure" in outcome || this.isOver) peer.cut();
    else this.upstream = peer;
    if (this.sandbox.isFull) peer.pauseForShare();
    return outcome;
  }

  /** Takes an open connection as the upstream. */
  take(socket: Bun.Socket<Peer | undefined>): Peer {
    this.#open += 1;
    const peer = new Peer(socket, this);
    peer.pause();
    this.upstream = peer;
    this.#settle();
    if (this.sandbox.isFull) peer.pauseForShare();
    return peer;
  }

  async #connect(address: string, port: number, deadline: number): Promise<Peer | undefined> {
    const { proxy } = this.sandbox.matcher.policy;
    if (proxy === null) return await this.#dial(address, port, deadline);
    const resolved = await this.#proxyAt(proxy.host);
    if (resolved === undefined) return undefined;
    this.#proxyAddress = resolved;
    const peer = await this.#dial(resolved, proxy.port, deadline);
    if (peer === undefined) this.#reportFailure(proxy, `does not answer at ${resolved}:${proxy.port}`);
    if (peer === undefined || this.isOver) return peer;
    this.#handshaking = peer;
    const late = setTimeout(() => peer.cut(), Math.max(0, deadline - performance.now()));
    const granted = await connectThroughProxy(peer, proxy, address, port).finally(() => clearTimeout(late));
    this.#handshaking = undefined;
    if (granted) return peer;
    this.#reportFailure(proxy, `did not grant a connection to ${address}:${port}`);
    peer.cut();
    return undefined;
  }

  /** The proxy's first address that is not closed. */
  async #proxyAt(host: string): Promise<string | undefined> {
    const { names } = this.sandbox;
    const addresses = isAddress(host) ? [host] : await names.resolve(host);
    if (this.isOver) return undefined;
    const open = addresses.find((address) => !this.sandbox.isClosed(address));
    const why = addresses.length === 0 ? "has no address" : `leads to ${addresses[0]}, which is closed to sandboxes`;
    if (open === undefined) this.#reportFailure({ host }, why);
    return open;
  }

  /** Reports a failing proxy to the sandbox's log, because programs inside only see their connections end. */
  #reportFailure({ host }: { host: string }, why: string): void {
    if (!this.isOver) this.sandbox.reportFailure(`egress proxy ${host}: ${why}`);
  }

  async #dial(address: string, port: number, deadline: number): Promise<Peer | undefined> {
    this.#open += 1;
    const timeoutMs = Math.min(this.sandbox.shared.bounds.dialAddressMs, deadline - performance.now());
    return await dial(this, { address, port, timeoutMs, failed: () => this.#release() });
  }

  /** Marks the flow as no longer waiting for its upstream. */
  #settle(): void {
    if (!this.#isWaiting) return;
    this.#isWaiting = false;
    this.sandbox.waiting -= 1;
  }

  /** From now on bytes flow both ways unchanged. */
  join(upstream: Peer): void {
    this.expect(undefined);
    oneWay(this.client, upstream);
    oneWay(upstream, this.client);
    upstream.resume();
    this.client.resume();
  }

  /** Closes the upstream, so that the flow can join another or none. */
  disconnect(): void {
    const { upstream } = this;
    this.upstream = undefined;
    upstream?.close();
  }

  /** Sends nothing more to the client and discards its input. The client has this long to read what was sent. */
  finish(withinMs: number | undefined): void {
    if (this.isOver) return;
    this.#settle();
    this.collect(undefined);
    this.client.events = { data: () => undefined, end: () => this.cut(), room: () => undefined };
    this.client.finish();
    this.expect(withinMs);
    this.client.resume();
  }

  cut(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.expect(undefined);
    this.client.cut();
    // End a pending handshake as well.
    this.#handshaking?.cut();
    this.upstream?.cut();
  }

  pauseForShare(): void {
    this.client.pauseForShare();
    this.upstream?.pauseForShare();
  }

  resumeForShare(): void {
    this.client.resumeForShare();
    // Bytes that the client had buffered may have filled the sandbox's share again.
    if (!this.sandbox.isFull) this.upstream?.resumeForShare();
  }

  get isStalled(): boolean {
    return this.#heldBytes > 0;
  }

  held(bytes: number): void {
    this.#heldBytes += bytes;
    this.sandbox.held(bytes);
  }

  /** Counts bytes buffered until the destination is known. Undefined: it is known, so the count returns to zero. */
  collect(bytes: number | undefined): void {
    const more = bytes ?? -this.#collectedBytes;
    this.#collectedBytes += more;
    if (more !== 0) this.held(more);
  }

  moved(): void {
    this.movedAt = performance.now();
  }

  closed(peer: Peer, whole: boolean): void {
    // Only for a current end: the flow may have replaced this peer.
    if (!whole && (peer === this.client || peer === this.upstream)) this.cut();
    this.#release();
  }

  whenGone(call: () => void): void {
    this.#gone.push(call);
  }

  #release(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    this.isOver = true;
    this.expect(undefined);
    this.collect(undefined);
    this.#settle();
    if (this.sandbox.flows.delete(this)) for (const gone of this.#gone) gone();
  }
}

function oneWay(from: Peer, to: Peer): void {
  from.events = {
    data: (bytes) => {
      if (!to.write(bytes)) from.pause();
    },
    end: () => to.finish(),
    room: () => to.resume(),
  };
}

function isAddress(text: string): boolean {
  return /^\d+\.\d+\.\d+\.\d+$/.test(text);
}
