/** The limits of the relay, each exceeded once. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { until } from "../../base/testing/until.ts";
import { extension, hello } from "../testing/hello.ts";
import type { RawClient } from "../testing/raw-client.ts";
import { allowing, type Outside, openOutside, openSource, RelayFixture, SANDBOX } from "../testing/relay-fixture.ts";
import type { Bounds } from "./bounds.ts";

const A = "127.0.0.2";
const OTHER_SANDBOX = "127.0.0.12";

let stack: DisposableStack;
beforeEach(() => {
  stack = new DisposableStack();
});
afterEach(() => stack.dispose());

async function relayed(bounds: Partial<Bounds>, server: (address: string, port: number) => Outside = openOutside) {
  const outside = stack.use(server(A, 0));
  const fixture = stack.use(await RelayFixture.open(outside.port, bounds));
  fixture.table.names.set("a.test", [A]).set("silent.test", null);
  for (const sandbox of [SANDBOX, OTHER_SANDBOX]) fixture.relay.set(sandbox, allowing("a.test", "silent.test"));
  return { outside, fixture };
}

/** A connection that may not even come to be. */
async function tls(fixture: RelayFixture, from = SANDBOX): Promise<RawClient | undefined> {
  const client = await fixture.tls(from).catch(() => undefined);
  return client === undefined ? undefined : stack.use(client);
}

async function connected(fixture: RelayFixture, outside: Outside, from = SANDBOX): Promise<RawClient> {
  const before = outside.connections.length;
  const client = stack.use(await fixture.tls(from));
  client.write(hello("a.test"));
  await until("it is connected", () => outside.connections.length > before);
  return client;
}

async function isCut(client: RawClient | undefined): Promise<void> {
  await client?.until(({ ending }) => ending !== undefined);
}

test("connections of a sandbox are bounded, and an ended one frees its place", async () => {
  const { fixture, outside } = await relayed({ connectionsPerSandbox: 2 });
  const first = await connected(fixture, outside);
  await connected(fixture, outside);
  await isCut(await tls(fixture));
  await connected(fixture, outside, OTHER_SANDBOX);
  first[Symbol.dispose]();
  await until("there is room again", async () => {
    const next = await tls(fixture);
    next?.write(hello("a.test"));
    await until("it is decided", () => next?.ending !== undefined || outside.connections.length > 3);
    return outside.connections.length > 3;
  });
});

test("when all places are taken, the sandbox with the most connections loses one", async () => {
  const { fixture, outside } = await relayed({ connections: 3 });
  const oldest = await connected(fixture, outside);
  const others = [await connected(fixture, outside), await connected(fixture, outside)];
  await isCut(await tls(fixture));
  await connected(fixture, outside, OTHER_SANDBOX);
  await isCut(oldest);
  // Now it is even enough.
  await isCut(await tls(fixture, OTHER_SANDBOX));
  expect(others.map(({ ending }) => ending)).toEqual([undefined, undefined]);
});

test("connections of a sandbox without a target so far are bounded", async () => {
  const { fixture, outside } = await relayed({ waitingPerSandbox: 2 });
  const waiting = [await fixture.tls(), await fixture.tls()].map((client) => stack.use(client));
  waiting[0]?.write(hello("silent.test"));
  await until("it is asked for", () => fixture.table.queries.includes("silent.test"));
  await isCut(await tls(fixture));
  await connected(fixture, outside, OTHER_SANDBOX);
  waiting[1]?.write(hello("a.test"));
  await until("it waits no more", () => outside.connections.length === 2);
  await connected(fixture, outside);
});

test("a flood of new connections is queued, and does not delay other sandboxes", async () => {
  const { fixture, outside } = await relayed({ newBurst: 2, newPerSecond: 0.001 });
  await connected(fixture, outside);
  await connected(fixture, outside);
  const waiting = stack.use(await fixture.tls()).write(hello("a.test"));
  await connected(fixture, outside, OTHER_SANDBOX);
  expect([waiting.ending, outside.connections.length]).toEqual([undefined, 3]);
  const { fixture: quick, outside: reached } = await relayed({ newBurst: 1, newPerSecond: 50 });
  for (let count = 0; count < 4; count++) stack.use(await quick.tls()).write(hello("a.test"));
  await until("all had their turn", () => reached.connections.length === 4);
});

test("a connection that does not name its target in time is closed", async () => {
  const { fixture } = await relayed({ helloMs: 50 });
  const silent = stack.use(await fixture.tls());
  const slow = stack.use(await fixture.http());
  slow.write("GET / HTTP/1.1\r\n");
  await isCut(silent);
  await isCut(slow);
});

test("an idle connection is closed", async () => {
  // Long enough to come to be, on a machine with much else to do.
  const { fixture, outside } = await relayed({ idleMs: 1_000, idleCheckMs: 10 });
  await isCut(await connected(fixture, outside));
});

test("a sandbox that does not read stops its sender only, and late reads are complete", async () => {
  const { fixture, outside } = await relayed(
    { heldBytes: 1024 * 1024, heldPerSandboxMinBytes: 256 * 1024 },
    openSource,
  );
  const source = outside as ReturnType<typeof openSource>;
  const stalled = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const client = stack.use(await fixture.tls());
      client.pause();
      return client.write(hello("a.test"));
    }),
  );
  await until("nothing moves any more", async () => {
    const before = source.sentBytes();
    await Bun.sleep(100);
    return before > 0 && source.sentBytes() === before;
  });
  const other = stack.use(await fixture.tls(OTHER_SANDBOX)).write(hello("a.test"));
  await other.until(({ receivedBytes }) => receivedBytes > 16 * 1024 * 1024);
  for (const client of stalled) client.resume();
  for (const client of stalled) await client.until(({ receivedBytes }) => receivedBytes > 8 * 1024 * 1024);
});

test("endless hellos count for the memory of their sandbox, and do not delay others", async () => {
  const { fixture, outside } = await relayed({ heldBytes: 1, heldPerSandboxMinBytes: 20_000 });
  const part = hello("", { extensions: extension(21, Buffer.alloc(40_000)) }).subarray(0, 15_000);
  const [one, other] = [stack.use(await fixture.tls()), stack.use(await fixture.http())];
  one.write(part);
  other.write(`GET / HTTP/1.1\r\nX: ${"x".repeat(15_000)}`);
  await connected(fixture, outside, OTHER_SANDBOX);
  stack.use(await fixture.tls()).write(hello("a.test"));
  await connected(fixture, outside, OTHER_SANDBOX);
  expect(outside.connections.length).toBe(2);
  for (const client of [one, other]) client[Symbol.dispose]();
  await until("it has its turn", () => outside.connections.length === 3);
});

test("when a sandbox's share is used up, its stalled connections are cut after a while", async () => {
  const bounds = { heldBytes: 1, heldPerSandboxMinBytes: 1, stalledMs: 50, idleCheckMs: 10 };
  const { fixture, outside } = await relayed(bounds, openSource);
  const stalled = stack.use(await fixture.tls());
  stalled.pause();
  stalled.write(hello("a.test"));
  await until("it is cut", () => outside.lost > 0);
  stalled.resume();
  await isCut(stalled);
});

test("a connection that cannot be started is cut and reported, at once and after a delay", async () => {
  const chosen = () => {
    throw new Error("the destination cannot be read");
  };
  const fixture = stack.use(await RelayFixture.open(1, { newBurst: 1, newPerSecond: 20 }, { chosen }));
  fixture.relay.set(SANDBOX, { ...allowing("a.test"), ruleNames: ["b.test"] });
  for (const _ of [1, 2, 3]) await isCut(await tls(fixture));
  expect(fixture.reports).toEqual([`${SANDBOX} a connection could not be relayed`]);
});
