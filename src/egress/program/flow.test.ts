import { expect, test } from "bun:test";
import { FakeSocket } from "../testing/fake-socket.ts";
import { SHARE_BYTES, smallSandbox } from "../testing/small-sandbox.ts";
import { Flow } from "./flow.ts";
import { Peer } from "./peer.ts";

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

test("an exception in a listener ends its own connection, which no longer counts", () => {
  const sandbox = smallSandbox();
  const [client, upstream] = [new FakeSocket(), new FakeSocket()];
  let gone = 0;
  const flow = new Flow(sandbox, client.socket, () => {
    gone += 1;
  });
  flow.take(upstream.socket);
  const fail = () => {
    throw new Error("thrown in a listener");
  };
  flow.client.events = { data: fail, end: fail, room: fail };
  expect(() => Peer.handlers.data?.(client.socket, Buffer.from("some"))).toThrow("thrown in a listener");
  expect([flow.isOver, flow.upstream?.isClosed, gone, sandbox.flows.size]).toEqual([true, true, 1, 0]);
});
