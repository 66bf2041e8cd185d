/** The relay as the server runs it: an unprivileged process, on the test's own loopback addresses. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "../base/testing/until.ts";
import { EgressRelay, RELAY_REPLY_CHECKS_MAX } from "./egress-relay.ts";
import { hello } from "./testing/hello.ts";
import { type NameTable, openNameTable } from "./testing/name-table.ts";
import { RawClient } from "./testing/raw-client.ts";
import { allowing, type Outside, openOutside, openSource } from "./testing/relay-fixture.ts";

const GATEWAY = "127.53.0.1";
const SANDBOX = "127.53.0.9";
const OUTSIDE = "127.53.0.2";

const folder = mkdtempSync(join(tmpdir(), "relay-"));
// Others than root must be able to pass through it.
chmodSync(folder, 0o711);
const closed = { ranges: ["10.0.0.0/8"] };
/** Data in kernel buffers when a hundred clients read nothing. */
const SENT_MIN_BYTES = 20 * 1024 * 1024;
const complaints: string[] = [];
let table: NameTable;
let outside: Outside;
let relay: EgressRelay;

beforeAll(async () => {
  table = await openNameTable(GATEWAY, 53);
  outside = openOutside(OUTSIDE, 443, (socket, bytes) => void socket.write(bytes));
  table.names.set("a.test", [OUTSIDE]);
  relay = await EgressRelay.open({
    gateway: GATEWAY,
    folder,
    closed: () => closed.ranges,
    log: { write: ({ event }) => void complaints.push(event) },
  });
});
afterAll(async () => {
  await relay.close();
  outside[Symbol.dispose]();
  table[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

/** Whether a hello for this name is echoed. */
async function reaches(name: string, sandbox = SANDBOX): Promise<boolean> {
  // The relay cuts an unknown sandbox at once, perhaps before the client knows that it is connected.
  using client = await RawClient.open(relay.ports.tls, GATEWAY, sandbox).catch(() => undefined);
  if (client === undefined) return false;
  client.write(hello(name));
  await client.until(({ ending, received }) => ending !== undefined || received.length > 10);
  return client.received.length > 10;
}

function pidOfRelay(): number | undefined {
  return pidsOfRelays()[0];
}

/** Pids of the relays, in the order of their start. */
function pidsOfRelays(): number[] {
  const pids = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8").trim().split(" ").map(Number);
  return pids.filter((pid) => commandOf(pid).includes(join(folder, "relay/relay.js")));
}

/** Empty if the process has ended since. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

test("the relay forwards allowed connections once `set` resolves, and has no privileges", async () => {
  expect(await reaches("a.test")).toBe(false);
  await relay.set(SANDBOX, allowing("a.test"));
  expect(await reaches("a.test")).toBe(true);
  expect(await reaches("b.test")).toBe(false);
  await relay.setClosed([`${OUTSIDE}/32`]);
  expect(await reaches("a.test")).toBe(false);
  await relay.setClosed(closed.ranges);
  expect(await reaches("a.test")).toBe(true);
  await relay.set(SANDBOX, null);
  expect(await reaches("a.test")).toBe(false);

  const status = readFileSync(`/proc/${pidOfRelay()}/status`, "utf8");
  expect(status).toMatch(new RegExp(`^Uid:\\t${relay.uid}\\t${relay.uid}\\t${relay.uid}\\t${relay.uid}$`, "m"));
  expect(status).toMatch(/^Groups:\t\s*$/m);
  expect(status).toMatch(/^NoNewPrivs:\t1$/m);
  for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
    expect(status).toMatch(new RegExp(`^${set}:\t0+$`, "m"));
  expect(readFileSync(`/proc/${pidOfRelay()}/environ`, "utf8")).toBe("");
});

test("a killed relay restarts on the same ports with all policies", async () => {
  await relay.set(SANDBOX, allowing("a.test"));
  const { ports } = relay;
  const before = pidOfRelay();
  using open = await RawClient.open(ports.tls, GATEWAY, SANDBOX);
  await open.write(hello("a.test")).until(({ received }) => received.length > 10);
  process.kill(before ?? expect.unreachable(), "SIGKILL");
  // Resolves when the next one has been told.
  await relay.set(SANDBOX, allowing("a.test", "b.test"));
  await until("there is another process", () => ![undefined, before].includes(pidOfRelay()));
  await open.until(({ ending }) => ending !== undefined);
  expect(relay.ports).toEqual(ports);
  await until("it carries again", () => reaches("a.test"));
  expect(complaints).toContain("the connection relay ended and is being restarted");
});

/** A relay that the server gives up sooner than usual. */
async function openImpatient(checkMs: number): Promise<EgressRelay> {
  const log = { write: () => undefined };
  return await EgressRelay.open({ gateway: "127.53.0.6", folder, closed: () => closed.ranges, log, checkMs });
}

// Guards against a server that was blocked for ten seconds and cuts the connections of all sandboxes.
test("a relay whose reply is still unread is not considered hung", async () => {
  const checkMs = 200;
  const others = pidsOfRelays();
  const impatient = await openImpatient(checkMs);
  const before = pidsOfRelays();
  const set = impatient.set(SANDBOX, allowing("b.test"));
  Bun.sleepSync(2 * checkMs * RELAY_REPLY_CHECKS_MAX);
  await set;
  await impatient.set(SANDBOX, null);
  expect(pidsOfRelays()).toEqual(before);
  await impatient.close();
  expect(pidsOfRelays()).toEqual(others);
});

test("a hung relay is replaced, and the next one gets all policies", async () => {
  const others = pidsOfRelays();
  const impatient = await openImpatient(100);
  const [stopped = expect.unreachable()] = pidsOfRelays().filter((pid) => !others.includes(pid));
  process.kill(stopped, "SIGSTOP");
  await impatient.set(SANDBOX, allowing("b.test"));
  expect(pidsOfRelays()).toHaveLength(others.length + 1);
  expect(pidsOfRelays()).not.toContain(stopped);
  await impatient.close();
});

test("many concurrent policies are all acknowledged once they are in force", async () => {
  const names = Array.from({ length: 1000 }, (_, index) => `${index}.${"x".repeat(60)}.test`);
  const sandboxes = Array.from({ length: 50 }, (_, index) => `127.53.1.${index}`);
  const reached = () => Promise.all(sandboxes.map((sandbox) => reaches("a.test", sandbox)));
  await Promise.all(sandboxes.map((sandbox) => relay.set(sandbox, allowing(...names, "a.test"))));
  expect(await reached()).toEqual(sandboxes.map(() => true));
  await Promise.all(sandboxes.map((sandbox) => relay.set(sandbox, null)));
  expect(await reached()).toEqual(sandboxes.map(() => false));
});

test("a hundred unread downloads take little memory", async () => {
  using source = openSource("127.53.0.3", 443);
  table.names.set("source.test", ["127.53.0.3"]);
  await relay.set(SANDBOX, allowing("source.test"));
  using stack = new DisposableStack();
  for (let count = 0; count < 100; count++) {
    const client = stack.use(await RawClient.open(relay.ports.tls, GATEWAY, SANDBOX));
    client.pause();
    client.write(hello("source.test"));
  }
  await until("nothing moves any more", async () => {
    const before = source.sentBytes();
    await Bun.sleep(200);
    // A connection that stalls earlier only waits for its turn.
    return source.connections.length === 100 && before > SENT_MIN_BYTES && source.sentBytes() === before;
  });
  const [, kilobytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pidOfRelay()}/status`, "utf8")) ?? [];
  expect(Number(kilobytes)).toBeLessThan(250 * 1024);
  await relay.set(SANDBOX, null);
});

test("the relay ends when the server is killed", async () => {
  const program = `
    import { EgressRelay } from ${JSON.stringify(join(import.meta.dir, "egress-relay.ts"))};
    const relay = await EgressRelay.open({ gateway: "127.53.0.5", folder: ${JSON.stringify(folder)}, closed: () => [], log: { write() {} } });
    console.log(relay.ports.tls);
  `;
  const server = Bun.spawn([process.execPath, "-e", program], { stdio: ["ignore", "pipe", "inherit"] });
  const { value } = await server.stdout.getReader().read();
  const port = Number(new TextDecoder().decode(value));
  expect(port).toBeGreaterThan(0);
  server.kill("SIGKILL");
  await server.exited;
  await until("nobody listens", async () => {
    try {
      using _ = await RawClient.open(port, "127.53.0.5");
      return false;
    } catch {
      return true;
    }
  });
});
