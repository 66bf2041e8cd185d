import { afterEach, beforeEach, expect, test } from "bun:test";
import { SEED } from "../../base/testing/seed.ts";
import { until } from "../../base/testing/until.ts";
import { hello } from "../testing/hello.ts";
import type { RawClient } from "../testing/raw-client.ts";
import { allowing, type Outside, openOutside, RelayFixture, SANDBOX } from "../testing/relay-fixture.ts";
import { Seeded } from "../testing/seeded.ts";
import { ALERT_DENIED } from "./client-hello.ts";

const A = "127.0.0.2";
const B = "127.0.0.3";

let stack: DisposableStack;
let fixture: RelayFixture;
let a: Outside;
let b: Outside;

/** Responds to each request with its destination and content. */
function answering(name: string) {
  return (socket: Bun.Socket<undefined>, bytes: Buffer) => {
    for (const [, path] of bytes.toString("latin1").matchAll(/(?:GET|POST) (\S+) HTTP/g)) {
      const text = `${name} ${path}`;
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    }
  };
}

beforeEach(async () => {
  stack = new DisposableStack();
  a = stack.use(openOutside(A, 0, answering("a")));
  b = stack.use(openOutside(B, a.port, answering("b")));
  fixture = stack.use(await RelayFixture.open(a.port));
  fixture.table.names.set("a.test", [A]).set("b.test", [B]).set("inside.test", ["10.1.2.3"]);
  fixture.relay.set(SANDBOX, allowing("a.test", "b.test", "*.b.test", "inside.test", "nowhere.test"));
});
afterEach(() => stack.dispose());

async function client(kind: "http" | "tls"): Promise<RawClient> {
  return stack.use(await fixture[kind]());
}

function get(host: string, path = "/"): string {
  return `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
}

test("TLS goes to the host of its hello, byte for byte, in any pieces", async () => {
  const bytes = Buffer.concat([hello("A.Test"), Buffer.from("what follows")]);
  const sandbox = await client("tls");
  for (const piece of new Seeded(SEED + 7).split(bytes)) {
    sandbox.write(piece);
    await Bun.sleep(0);
  }
  const [socket] = await arrived(a);
  socket?.write("and back");
  await sandbox.has("and back");
  expect(a.received()).toBe(bytes.toString("latin1"));
});

test("TLS for a denied, closed or unknown name gets an alert and ends", async () => {
  for (const name of ["c.test", "127.0.0.2", "inside.test", "nowhere.test", "a.test\0"]) {
    const sandbox = await client("tls");
    expect(await sandbox.write(hello(name)).end()).toBe(ALERT_DENIED.toString("latin1"));
  }
  const sandbox = await client("tls");
  expect(await sandbox.write("GET / HTTP/1.1\r\n\r\n").end()).toBe("");
  expect(a.connections.length + b.connections.length).toBe(0);
});

test("a request that was answered early does not block the next one", async () => {
  const sandbox = await client("http");
  sandbox.write("POST /early HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\n12");
  await sandbox.has("a /early");
  sandbox.write(`34${get("b.test", "/next")}`);
  await sandbox.has("b /next");
  await until("all of it has arrived", () => a.received().endsWith("\r\n\r\n1234"));
});

test("each request of a connection is checked, and goes to its own host", async () => {
  const sandbox = await client("http");
  sandbox.write(get("a.test", "/1"));
  await sandbox.has("a /1");
  sandbox.write(get("A.test:80", "/2"));
  await sandbox.has("a /2");
  expect(a.connections.length).toBe(1);
  sandbox.write(get("x.b.test", "/3"));
  fixture.table.names.set("x.b.test", [B]);
  await sandbox.has("b /3");
  sandbox.write(get("c.test", "/4"));
  const output = await sandbox.end();
  expect(output).toContain("HTTP/1.1 403 Forbidden");
  expect(output).toContain('"c.test" is not allowed by the network rules of this sandbox');
  expect(a.received() + b.received()).not.toContain("c.test");
  expect(fixture.relay.decisions.take()).toEqual({ allowed: 2, forbidden: 1 });
});

test("pipelined requests are answered in order, including rejections", async () => {
  const body = "3\r\nabc\r\n0\r\n\r\n";
  const post = `POST /2 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;
  const all = [get("a.test", "/1"), post, get("b.test", "/3"), get("c.test", "/4"), get("a.test", "/5")].join("");
  for (const pieces of [[Buffer.from(all)], new Seeded(SEED + 8).split(Buffer.from(all))]) {
    const sandbox = await client("http");
    for (const piece of pieces) {
      sandbox.write(piece);
      await Bun.sleep(0);
    }
    const output = await sandbox.end();
    expect(output.match(/[ab] \/\d|403 Forbidden/g)).toEqual(["a /1", "a /2", "b /3", "403 Forbidden"]);
  }
});

test("a request inside a body is not a request, and an ambiguous one is rejected", async () => {
  const inner = get("c.test");
  const sandbox = await client("http");
  sandbox.write(`POST /1 HTTP/1.1\r\nHost: a.test\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`);
  await sandbox.has("a /1");
  const refused = await client("http");
  refused.write(`POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n${inner}`);
  expect(await refused.end()).toContain("400 Bad Request");
  const broken = await client("http");
  const odd = `POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n`;
  await broken.write(`${odd}3;x\r\nabc\r\n0\r\n\r\n`).until(({ ending }) => ending !== undefined);
});

test("the reason why a host cannot be reached is in the response", async () => {
  for (const [host, why] of [
    ["inside.test", "closed to every sandbox"],
    ["nowhere.test", "has no IPv4 address"],
    ["10.1.2.3", "is not allowed"],
  ] as const) {
    expect(await (await client("http")).write(get(host)).end()).toContain(why);
  }
});

test("after an upgrade the connection to the checked host is forwarded unchanged", async () => {
  const switching = stack.use(
    openOutside("127.0.0.4", a.port, (socket, bytes) => {
      if (bytes.includes("HTTP/1.1")) socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nhi");
      else socket.write(bytes);
    }),
  );
  fixture.table.names.set("a.b.test", [switching.address]);
  const ask = (protocol: string) =>
    `GET / HTTP/1.1\r\nHost: a.b.test\r\nConnection: upgrade\r\nUpgrade: ${protocol}\r\n\r\n`;
  const sandbox = await client("http");
  await sandbox.write(ask("websocket")).has("\r\n\r\nhi");
  await sandbox.write("Host: c.test, as it is").has("as it is");
  const many = await client("http");
  await many.write(ask("h2c")).until(({ ending }) => ending !== undefined);
});

test("the last bytes before the end of a connection arrive", async () => {
  const sandbox = await client("tls");
  sandbox.write(hello("a.test")).write("all").finish();
  expect(await sandbox.end()).toBe("");
  expect(a.received()).toEndWith("all");
});

test("a new policy cuts only what it forbids, and an ended sandbox loses all connections", async () => {
  const [first, second] = [await client("tls"), await client("http")];
  first.write(hello("a.test"));
  await arrived(a);
  await second.write(get("b.test")).has("b /");
  fixture.relay.set(SANDBOX, allowing("b.test"));
  await first.until(({ ending }) => ending !== undefined);
  await second.write(get("b.test", "/2")).has("b /2");
  fixture.relay.setClosed([`${B}/32`]);
  await second.until(({ ending }) => ending !== undefined);
  fixture.relay.setClosed([]);
  const third = await client("tls");
  third.write(hello("b.test"));
  await arrived(b, 2);
  fixture.relay.set(SANDBOX, null);
  await third.until(({ ending }) => ending !== undefined);
  await (await client("tls")).until(({ ending }) => ending !== undefined);
});

test("a policy that changes during a look-up applies to the waiting connection", async () => {
  fixture.table.names.set("a.test", null);
  const sandbox = await client("tls");
  sandbox.write(hello("a.test"));
  await until("it is asked", () => fixture.table.queries.includes("a.test"));
  fixture.table.names.set("a.test", [A]);
  fixture.relay.set(SANDBOX, allowing("b.test"));
  await sandbox.until(({ ending }) => ending !== undefined);
  expect(a.connections.length).toBe(0);
});

test("the relay tries the next address after a silent one, and never a closed one", async () => {
  fixture.table.names.set("a.test", ["10.9.9.9", "127.0.0.77", A]);
  const sandbox = await client("tls");
  sandbox.write(hello("a.test"));
  await arrived(a);
});

/** A SOCKS server that grants everything, and then echoes. */
function granting(socket: Bun.Socket<undefined>, bytes: Buffer): void {
  if (bytes[0] !== 5) socket.write(bytes);
  else socket.write(Buffer.from(bytes.length === 3 ? [5, 0] : [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
}

test("a proxy gets the checked address, and is not used if it is now closed", async () => {
  const proxy = stack.use(openOutside("127.0.0.5", 0, granting));
  const rules = Object.assign(allowing("a.test"), {
    proxy: { host: proxy.address, port: proxy.port, credentials: null },
  });
  fixture.relay.set(SANDBOX, rules);
  const sandbox = await client("tls");
  await sandbox.write(hello("a.test")).until(({ received }) => received.equals(hello("a.test")));
  const request = Buffer.from([5, 1, 0, 5, 1, 0, 1, ...A.split(".").map(Number), a.port >> 8, a.port & 255]);
  expect(proxy.received()).toBe(request.toString("latin1") + hello("a.test").toString("latin1"));
  fixture.relay.setClosed([`${proxy.address}/32`]);
  await sandbox.until(({ ending }) => ending !== undefined);
});

test("a silent proxy is given up as soon as the policy removes it", async () => {
  const proxy = stack.use(openOutside("127.0.0.5", 0));
  const rules = Object.assign(allowing("a.test"), {
    proxy: { host: proxy.address, port: proxy.port, credentials: null },
  });
  fixture.relay.set(SANDBOX, rules);
  const sandbox = await client("tls");
  sandbox.write(hello("a.test"));
  await until("it is asked", () => proxy.received() !== "");
  fixture.relay.set(SANDBOX, allowing("b.test"));
  await until("it is left", () => proxy.lost === 1);
  await sandbox.until(({ ending }) => ending !== undefined);
});

test("a failing proxy is reported with the reason: once per interval, and again after a change", async () => {
  const silent = stack.use(openOutside("127.0.0.5", 0, (socket) => void socket.write(Buffer.from([5, 255]))));
  const through = async (host: string, port: number) => {
    fixture.relay.set(SANDBOX, Object.assign(allowing("a.test"), { proxy: { host, port, credentials: null } }));
    for (let times = 0; times < 3; times++) {
      const sandbox = await client("tls");
      await sandbox.write(hello("a.test")).until(({ ending }) => ending !== undefined);
    }
  };
  fixture.table.names.set("closed.test", ["10.0.0.7"]);
  fixture.table.names.set("both.test", ["10.0.0.7", "127.0.0.5"]);
  await through("nowhere.test", 1080);
  await through("closed.test", 1080);
  await through("127.0.0.6", 1);
  await through("both.test", silent.port);
  expect(fixture.reports).toEqual([
    `${SANDBOX} egress proxy nowhere.test: has no address`,
    `${SANDBOX} egress proxy closed.test: leads to 10.0.0.7, which is closed to sandboxes (3 connections failed since this was last reported)`,
    `${SANDBOX} egress proxy 127.0.0.6: does not answer at 127.0.0.6:1 (3 connections failed since this was last reported)`,
    `${SANDBOX} egress proxy both.test: did not grant a connection to ${A}:${a.port} (3 connections failed since this was last reported)`,
  ]);
});

async function arrived(outside: Outside, count = 1): Promise<readonly Bun.Socket<undefined>[]> {
  await until("it is connected", () => outside.connections.length >= count);
  return outside.connections;
}
