/** Connections of a sandbox with header rules that no rule is for: they go where the sandbox sends them. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { until } from "../../base/testing/until.ts";
import { extension, hello } from "../testing/hello.ts";
import type { RawClient } from "../testing/raw-client.ts";
import { type Outside, openOutside, RelayFixture, SANDBOX } from "../testing/relay-fixture.ts";
import type { Bounds } from "./bounds.ts";

const [NAMED, CHOSEN] = ["127.0.0.2", "127.0.0.3"];

let stack: DisposableStack;
let fixture: RelayFixture;
let named: Outside;
let chosen: Outside;

beforeEach(async () => {
  stack = new DisposableStack();
  named = stack.use(openOutside(NAMED, 0));
  chosen = stack.use(openOutside(CHOSEN, named.port, (socket) => void socket.write("from there")));
  fixture = await opened();
});
afterEach(() => stack.dispose());

async function opened(bounds: Partial<Bounds> = {}): Promise<RelayFixture> {
  const address = { address: CHOSEN, port: named.port };
  const made = stack.use(await RelayFixture.open(named.port, bounds, { chosen: address }));
  made.table.names.set("a.test", [NAMED]).set("ruled.test", [NAMED]);
  made.relay.set(SANDBOX, {
    allowRanges: [],
    allowNames: [],
    denyRanges: [],
    proxy: null,
    ruleNames: ["ruled.test"],
  });
  return made;
}

async function client(kind: "http" | "tls", of = fixture): Promise<RawClient> {
  return stack.use(await of[kind]());
}

test.each([
  ["TLS for a name without a rule", "tls", hello("a.test")],
  ["TLS without a name", "tls", hello("", { extensions: extension(21, Buffer.alloc(9)) })],
  ["another protocol on port 443", "tls", Buffer.from("SSH-2.0-client\r\n")],
  ["a request for a host without a rule", "http", Buffer.from("GET / HTTP/1.1\r\nHost: a.test\r\n\r\nmore")],
  ["another protocol on port 80", "http", Buffer.from("SSH-2.0-client\r\n")],
  ["a request without a host", "http", Buffer.from("GET / HTTP/1.0\r\n\r\n")],
] as const)("%s goes to the chosen address, byte for byte", async (_, kind, bytes) => {
  const sandbox = await client(kind);
  sandbox.write(bytes);
  await sandbox.has("from there");
  expect([chosen.received(), named.received()]).toEqual([bytes.toString("latin1"), ""]);
});

test("a client that waits for the server to begin gets its connection after a moment", async () => {
  const hurried = await opened({ helloMs: 300 });
  for (const kind of ["http", "tls"] as const) {
    await client(kind, hurried);
    await until("it is connected", () => chosen.connections.length > 0);
    chosen.connections.length = 0;
  }
});

test("a request for a host with a rule is refused with the reason, and nothing of it is sent", async () => {
  const sandbox = await client("http");
  sandbox.write("GET / HTTP/1.1\r\nHost: Ruled.Test\r\nX: secret\r\n\r\n");
  const text = await sandbox.end();
  expect(text).toStartWith("HTTP/1.1 403 Forbidden\r\n");
  expect(text).toContain('"Ruled.Test" has the header rule "ruled.test": use https');
  expect([chosen.connections.length, named.connections.length]).toEqual([0, 0]);
});

test("a name with a rule ends where the server has no authority for rules", async () => {
  const sandbox = await client("tls");
  sandbox.write(hello("ruled.test"));
  expect(await sandbox.end()).toBe("\x15\x03\x03\x00\x02\x02\x50");
  expect([chosen.connections.length, named.connections.length]).toEqual([0, 0]);
});
