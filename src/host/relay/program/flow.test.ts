import { expect, test } from "bun:test";
import { BOUNDS } from "./bounds.ts";
import { Flow } from "./flow.ts";
import { Peer } from "./peer.ts";
import { type Commons, Sandbox } from "./sandbox.ts";

const SHARE_BYTES = 1000;

const commons: Commons = {
  bounds: BOUNDS,
  nameServer: { address: "127.0.0.1", port: 53 },
  isClosed: () => false,
  shareBytes: () => SHARE_BYTES,
};

/** A connection of which only is known whether it is read from. */
class Played {
  data: Peer | undefined;
  isRead = true;

  pause(): void {
    this.isRead = false;
  }

  resume(): void {
    this.isRead = true;
  }

  readonly setNoDelay = () => true;
  readonly setKeepAlive = () => true;

  get socket(): Bun.Socket<Peer | undefined> {
    return this as unknown as Bun.Socket<Peer | undefined>;
  }
}

test("when what waited at one end makes its sandbox full again, the other end is not read from either", () => {
  const sandbox = new Sandbox(commons, { allowRanges: [], allowNames: [], denyRanges: [], proxy: null });
  const [client, upstream] = [new Played(), new Played()];
  const flow = new Flow(sandbox, client.socket, () => undefined);
  flow.upstream = new Peer(upstream.socket, flow);
  flow.client.events = { data: () => sandbox.held(SHARE_BYTES), end: () => undefined, room: () => undefined };
  sandbox.held(SHARE_BYTES + 1);
  flow.client.putBack(Buffer.from("what waited"));
  expect([client.isRead, upstream.isRead]).toEqual([false, false]);
  sandbox.held(-SHARE_BYTES);
  expect(sandbox.isFull).toBe(true);
  expect([client.isRead, upstream.isRead]).toEqual([false, false]);
  sandbox.held(-SHARE_BYTES);
  expect(sandbox.isFull).toBe(false);
  expect([client.isRead, upstream.isRead]).toEqual([true, true]);
});
