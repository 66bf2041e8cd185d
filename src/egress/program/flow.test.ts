import { expect, test } from "bun:test";
import { SHARE_BYTES, smallSandbox } from "../testing/small-sandbox.ts";
import { Flow } from "./flow.ts";
import { Peer } from "./peer.ts";

/** A fake connection that only records whether it is read from. */
class FakeSocket {
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

test("if flushing one end uses up the sandbox's share again, the other end is not read", () => {
  const sandbox = smallSandbox();
  const [client, upstream] = [new FakeSocket(), new FakeSocket()];
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
