/** Rules in the machine's own tables, in the tests' network. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createSocket } from "node:dgram";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "../../base/testing/until.ts";
import { Fault } from "../../contract/fault.ts";
import { run } from "../../system/command.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { Firewall, nft } from "../../system/net/nft.ts";
import { Network } from "./network.ts";

const data = new DataFolder(mkdtempSync(join(tmpdir(), "sandlot-network-")));
const way = { address: "10.0.0.5", port: 5000 };
/** While it is so, no rule can be changed. */
let isIll = false;
let illCalls = 0;
let network: Network;
beforeAll(async () => {
  data.makeRunFolder();
  network = new Network(
    data,
    undefined,
    new Firewall(async (script) => {
      if (isIll) {
        illCalls++;
        throw new Fault(500, "nft is ill");
      }
      await nft(script);
    }),
  );
  await network.open();
});
afterAll(async () => {
  await network.remove();
  for (const folder of [data.runFolder, data.path]) rmSync(folder, { recursive: true });
});

const granted = async () => await run(["nft", "list", "table", "inet", network.table]);

test("an opened route is closed when its slot is returned, also one opened twice", async () => {
  const slot = network.take();
  await network.grant(slot, [way, way]);
  expect(await granted()).toContain(`ip daddr ${way.address} tcp dport ${way.port} accept`);
  await network.free(slot);
  expect(await granted()).not.toContain(way.address);
});

test("a route that is just being opened is closed when its slot is returned", async () => {
  const slot = network.take();
  const granting = network.grant(slot, [way]);
  await Promise.all([granting, network.free(slot)]);
  expect(await granted()).not.toContain(way.address);
});

test("a slot whose route could not be opened is returned", async () => {
  const slot = network.take();
  await expect(network.grant(slot, [{ ...way, port: 70_000 }])).rejects.toThrow("nft");
  await network.free(slot);
  expect(network.takeFor(network.address(slot), "one")).toBe(slot);
});

// Guards against a slot that stays unusable until the next start.
test("a slot is not reused before its rules are removed", async () => {
  const [slot, free] = [network.take(), network.freeSlots];
  await network.grant(slot, [way]);
  isIll = true;
  await network.free(slot);
  expect(network.freeSlots).toBe(free);
  isIll = false;
  await until("it is given back", () => network.freeSlots === free + 1);
  expect(await granted()).not.toContain(way.address);
});

test("a slot is not reused before the edge has left its address", async () => {
  const slot = network.take();
  const [left, requested] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const { beforeReuse } = network;
  network.beforeReuse = (address) => {
    requested.resolve(address);
    return left.promise;
  };
  const freed = network.free(slot);
  expect(await requested.promise).toBe(network.address(slot));
  // Whatever else there is to be done by then.
  await network.grant(network.take(), []);
  const other = network.takeFor(network.address(slot), "another");
  expect(other).not.toBe(slot);
  left.resolve();
  await freed;
  network.beforeReuse = beforeReuse;
  expect(network.takeFor(network.address(slot), "a third")).toBe(slot);
});

test("this machine's connections to a slot are closed before its return, and others stay", async () => {
  const [slot, other] = [network.take(), network.take()];
  const addresses = [network.address(slot), network.address(other)];
  for (const address of addresses) await run(["ip", "address", "add", `${address}/32`, "dev", "lo"]);
  const closed: string[] = [];
  const handlers = { data: () => undefined, error: () => undefined };
  const listeners = addresses.map((hostname) => Bun.listen({ hostname, port: 0, socket: handlers }));
  for (const { hostname, port } of listeners) {
    await Bun.connect({ hostname, port, socket: { ...handlers, close: () => void closed.push(hostname) } });
  }
  await network.free(slot);
  await until("the connection is closed", () => closed.length > 0);
  expect(closed).toEqual([network.address(slot)]);
  for (const listener of listeners) listener.stop(true);
  for (const address of addresses) await run(["ip", "address", "del", `${address}/32`, "dev", "lo"]);
  await network.free(other);
});

// Guards against a second attempt that finds nothing to leave and frees the slot.
test("a slot whose rules were removed at the second attempt is not reused before the edge has left it", async () => {
  const [slot, free] = [network.take(), network.freeSlots];
  await network.grant(slot, [way]);
  const left = Promise.withResolvers<void>();
  const { beforeReuse } = network;
  let requestCount = 0;
  network.beforeReuse = async () => {
    if (++requestCount === 1) await left.promise;
  };
  illCalls = 0;
  isIll = true;
  const freed = network.free(slot);
  await until("the first attempt has failed", () => illCalls > 0);
  isIll = false;
  // Longer than the delay of a second attempt.
  await Bun.sleep(2_000);
  expect(network.freeSlots).toBe(free);
  left.resolve();
  await freed;
  await until("it is given back", () => network.freeSlots === free + 1);
  network.beforeReuse = beforeReuse;
});

/** A slot with a connection that the kernel knows of. */
async function withFlow(use: (slot: number, flows: () => string[]) => Promise<void>): Promise<void> {
  const slot = network.take();
  const address = network.address(slot);
  const flows = () =>
    readFileSync("/proc/net/nf_conntrack", "utf8")
      .split("\n")
      .filter((line) => line.includes(address));
  await run(["ip", "address", "add", `${address}/32`, "dev", "lo"]);
  const socket = createSocket("udp4");
  try {
    await new Promise<void>((resolve) => socket.bind(0, address, resolve));
    const sent = Promise.withResolvers<unknown>();
    socket.send("x", 4444, network.gateway, sent.resolve);
    await sent.promise;
    expect(flows()).not.toBeEmpty();
    await use(slot, flows);
  } finally {
    socket.close();
    await run(["ip", "address", "del", `${address}/32`, "dev", "lo"]);
  }
}

// Guards against connections that stay for five days, so that replies reach the next sandbox with the address.
test("tracked connections of a slot are removed when it is returned", async () => {
  await withFlow(async (slot, flows) => {
    await network.free(slot);
    expect(flows()).toEqual([]);
  });
});

// Guards against peers of a paused and resumed sandbox that do not learn that it has hung up.
test("tracked connections of a sandbox that resumes are kept for it, and for no other", async () => {
  await withFlow(async (slot, flows) => {
    await network.free(slot, "one");
    expect(network.takeFor(network.address(slot), "one")).toBe(slot);
    expect(flows()).not.toBeEmpty();
    await network.free(slot);
    expect(flows()).toEqual([]);
  });
});

test.each([
  [
    "a new sandbox",
    (slot: number) => {
      const taken = [network.take()];
      while (taken.at(-1) !== slot) taken.push(network.take());
    },
  ],
  [
    "another one that is restored",
    (slot: number) => {
      expect(network.takeFor(network.address(slot), "another")).toBe(slot);
    },
  ],
])("%s with this slot starts without them", async (_, take) => {
  const namespace = Bun.spawn(["unshare", "--net", "sh", "-c", "echo ready; exec sleep 1000"], { stdout: "pipe" });
  await namespace.stdout.getReader().read();
  try {
    await withFlow(async (slot, flows) => {
      await network.free(slot, "one");
      take(slot);
      expect(flows()).not.toBeEmpty();
      await network.plug(slot, namespace.pid);
      expect(flows()).toEqual([]);
      await network.unplug(slot);
      await network.free(slot);
    });
  } finally {
    namespace.kill("SIGKILL");
    await namespace.exited;
  }
});
