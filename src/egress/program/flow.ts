/**
 * One connection of a sandbox and what it is joined to. It counts until both ends, and whatever is being dialled for
 * it, are gone. After each wait somebody may have cut it: who waited looks at `isOver` before anything else.
 */
import { RELAY_DIAL_ADDRESSES_MAX } from "../limits.ts";
import { dial } from "./dial.ts";
import { Peer, type PeerOwner } from "./peer.ts";
import type { Carried, Sandbox } from "./sandbox.ts";
import { askProxy } from "./socks.ts";

/** What it was let through for. */
type Purpose = { name: string } | { address: string };

/** Why there is nothing to be joined to. */
export type NotReached = "forbidden" | "unknown" | "closed" | "silent" | "over";

export class Flow implements PeerOwner, Carried {
  readonly client: Peer;
  upstream: Peer | undefined;
  isOver = false;
  movedAt = performance.now();
  #purpose: Purpose | undefined;
  /** The addresses that it has dialled for its purpose. */
  #address: string | undefined;
  #proxy: string | undefined;
  #proxyAddress: string | undefined;
  /** A proxy that is being asked. */
  #asked: Peer | undefined;
  #isWaiting = true;
  #heldBytes = 0;
  /** Of what it has said so far of whom it is for. */
  #collectedBytes = 0;
  /** Ends, and tries to get one, that are still there. */
  #open = 1;
  #timer: Timer | undefined;

  constructor(
    readonly sandbox: Sandbox,
    socket: Bun.Socket<Peer | undefined>,
    readonly gone: () => void,
  ) {
    sandbox.flows.add(this);
    sandbox.waiting += 1;
    this.client = new Peer(socket, this);
    if (sandbox.isFull) this.client.stop();
  }

  /** It is cut unless something else is expected of it, or nothing any more, before this is over. */
  expect(withinMs: number | undefined): void {
    clearTimeout(this.#timer);
    this.#timer = withinMs === undefined ? undefined : setTimeout(() => this.cut(), withinMs);
  }

  /** Whether what it was let through for is allowed now. */
  mayGoOn(): boolean {
    if (this.#purpose === undefined) return true;
    const { judge } = this.sandbox;
    for (const address of [this.#address, this.#proxyAddress]) {
      if (address !== undefined && this.sandbox.isClosed(address)) return false;
    }
    if (this.#proxy !== undefined && this.#proxy !== JSON.stringify(judge.policy.proxy)) return false;
    if ("name" in this.#purpose && judge.allowsName(this.#purpose.name)) return true;
    const address = "address" in this.#purpose ? this.#purpose.address : this.#address;
    return address !== undefined && judge.allowsAddress(address);
  }

  /** A connection to there, if it may be. It is paused. */
  async reach(purpose: Purpose, port: number): Promise<Peer | NotReached> {
    const { judge, commons, names } = this.sandbox;
    if ("name" in purpose ? !judge.allowsName(purpose.name) : !judge.allowsAddress(purpose.address)) return "forbidden";
    this.#purpose = purpose;
    this.#address = undefined;
    this.#proxy = JSON.stringify(judge.policy.proxy);
    this.#proxyAddress = undefined;
    const deadline = performance.now() + commons.bounds.dialMs;
    const addresses = "name" in purpose ? await names.resolve(purpose.name) : [purpose.address];
    if (this.isOver) return "over";
    if (addresses.length === 0) return "unknown";
    let why: NotReached = "closed";
    for (const address of addresses.slice(0, RELAY_DIAL_ADDRESSES_MAX)) {
      if (this.sandbox.isClosed(address)) continue;
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
      if (this.sandbox.isFull) peer.stop();
      return peer;
    }
    return why;
  }

  /** Directly, or through the sandbox's proxy. */
  async #connect(address: string, port: number, deadline: number): Promise<Peer | undefined> {
    const { proxy } = this.sandbox.judge.policy;
    if (proxy === null) return await this.#dial(address, port, deadline);
    const resolved = await this.#proxyAt(proxy.host);
    if (resolved === undefined) return undefined;
    this.#proxyAddress = resolved;
    const peer = await this.#dial(resolved, proxy.port, deadline);
    if (peer === undefined) this.#complain(proxy, `does not answer at ${resolved}:${proxy.port}`);
    if (peer === undefined || this.isOver) return peer;
    this.#asked = peer;
    const late = setTimeout(() => peer.cut(), Math.max(0, deadline - performance.now()));
    const granted = await askProxy(peer, proxy, address, port).finally(() => clearTimeout(late));
    this.#asked = undefined;
    if (granted) return peer;
    this.#complain(proxy, `did not grant a connection to ${address}:${port}`);
    peer.cut();
    return undefined;
  }

  /** The first address of the proxy that is not closed. */
  async #proxyAt(host: string): Promise<string | undefined> {
    const { names } = this.sandbox;
    const addresses = isAddress(host) ? [host] : await names.resolve(host);
    if (this.isOver) return undefined;
    const open = addresses.find((address) => !this.sandbox.isClosed(address));
    const why = addresses.length === 0 ? "has no address" : `leads to ${addresses[0]}, which is closed to sandboxes`;
    if (open === undefined) this.#complain({ host }, why);
    return open;
  }

  /** Programs inside only see that their connections end. */
  #complain({ host }: { host: string }, why: string): void {
    if (!this.isOver) this.sandbox.complain(`egress proxy ${host}: ${why}`);
  }

  async #dial(address: string, port: number, deadline: number): Promise<Peer | undefined> {
    this.#open += 1;
    const timeoutMs = Math.min(this.sandbox.commons.bounds.dialAddressMs, deadline - performance.now());
    return await dial(this, { address, port, timeoutMs, failed: () => this.#release() });
  }

  /** It waits no more. */
  #settle(): void {
    if (!this.#isWaiting) return;
    this.#isWaiting = false;
    this.sandbox.waiting -= 1;
  }

  /** From now on bytes go both ways as they come. */
  join(upstream: Peer): void {
    this.expect(undefined);
    oneWay(this.client, upstream);
    oneWay(upstream, this.client);
    upstream.resume();
    this.client.resume();
  }

  /** Lets go of what it is joined to, to be joined to something else, or to nothing. */
  disconnect(): void {
    const { upstream } = this;
    this.upstream = undefined;
    upstream?.close();
  }

  /** Nothing more goes to the client, and nothing it sends counts. It has so long to read what it was told. */
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
    // A proxy that is being asked must not be asked for more.
    this.#asked?.cut();
    this.upstream?.cut();
  }

  stop(): void {
    this.client.stop();
    this.upstream?.stop();
  }

  goOn(): void {
    this.client.goOn();
    // What waited there may have made the sandbox full again.
    if (!this.sandbox.isFull) this.upstream?.goOn();
  }

  get isStalled(): boolean {
    return this.#heldBytes > 0;
  }

  held(bytes: number): void {
    this.#heldBytes += bytes;
    this.sandbox.held(bytes);
  }

  /** So many bytes more are kept until it is known whom it is for. Undefined: it is. */
  collect(bytes: number | undefined): void {
    const more = bytes ?? -this.#collectedBytes;
    this.#collectedBytes += more;
    if (more !== 0) this.held(more);
  }

  moved(): void {
    this.movedAt = performance.now();
  }

  closed(peer: Peer, whole: boolean): void {
    // Another one may have taken its place meanwhile.
    if (!whole && (peer === this.client || peer === this.upstream)) this.cut();
    this.#release();
  }

  #release(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    this.isOver = true;
    this.expect(undefined);
    this.collect(undefined);
    this.#settle();
    if (this.sandbox.flows.delete(this)) this.gone();
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
