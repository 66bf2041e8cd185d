/** Destroying connections of the real kernel, in the tests' network. */
import { expect, test } from "bun:test";
import { timed } from "../../base/testing/timed.ts";
import { until } from "../../base/testing/until.ts";
import { canDestroyConnections, destroyConnections } from "./socket-destroy.ts";

const [MINE, OTHERS] = ["127.78.0.1", "127.78.0.2"] as const;
const STREAMS = 1000;
const STREAMS_END_MS = 100;
const quiet = { data: () => undefined, error: () => undefined };

interface Peers extends Disposable {
  /** How many of the connections are closed. */
  closed: number;
}

async function connections(address: string, count: number, over = address): Promise<Peers> {
  const listener = Bun.listen({ hostname: address, port: 0, socket: quiet });
  const peers = { closed: 0, [Symbol.dispose]: () => listener.stop(true) };
  const socket = { ...quiet, close: () => void peers.closed++ };
  const connect = () => Bun.connect({ hostname: over, port: listener.port, socket });
  await Promise.all(Array.from({ length: count }, connect));
  return peers;
}

test("connections to an address end, also those of IPv6 sockets, and no others", async () => {
  expect(canDestroyConnections()).toBe(true);
  using mine = await connections(MINE, 2);
  using mapped = await connections(MINE, 1, `::ffff:${MINE}`);
  using others = await connections(OTHERS, 2);
  destroyConnections(MINE);
  await until("they are closed", () => mine.closed + mapped.closed === 3);
  destroyConnections("127.78.0.3");
  expect(others.closed).toBe(0);
  destroyConnections(OTHERS);
  await until("the others are closed", () => others.closed === 2);
});

timed(`${STREAMS} streams end within ${STREAMS_END_MS} ms`, async () => {
  using mine = await connections(MINE, STREAMS);
  const startMs = performance.now();
  destroyConnections(MINE);
  await until("all are closed", () => mine.closed === STREAMS);
  expect(performance.now() - startMs).toBeLessThan(STREAMS_END_MS);
});
