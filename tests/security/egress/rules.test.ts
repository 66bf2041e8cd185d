/** Packets against the egress rules of single sandboxes, and against changes of these rules. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { LONG } from "../../../src/base/testing/long.ts";
import type { Egress, EgressPolicy } from "../../../src/contract/internal/host.ts";
import { DnsRelay } from "../../../src/egress/dns-relay.ts";
import {
  INTERNET_PORTS,
  MACHINE_ADDRESS,
  MUST_BE_CLOSED,
  NAME_SERVER,
  OUTSIDE,
  SITES,
} from "../../../src/host/testing/outer-network.ts";
import { attempt } from "../../../src/system/command.ts";
import { until } from "../../support/until.ts";
import { expectOnly, Lines, PluggedNamespaces, reachedBy } from "../plugged-namespaces.ts";

const ASK = join(import.meta.dir, "../../support/services/ask.py");
const UPDATES = LONG ? 1_000 : 24;
const OTHER = SITES["other.test"];
const ALL = ["0.0.0.0/0"];
const nothing: EgressPolicy = { allowRanges: [], allowNames: [], denyRanges: [], proxy: null };
const deny = (...denyRanges: string[]): EgressPolicy => ({ ...nothing, denyRanges });
const proxy = { host: "proxy.test", port: 1080, credentials: null };
const every = (address: string) => [`tcp ${address} 80`, `udp ${address} ${INTERNET_PORTS.echo}`];

const here = new PluggedNamespaces();
beforeAll(() => here.open());
afterAll(() => here.remove());

async function answerNames(): Promise<Disposable> {
  const dns = await DnsRelay.open(here.network.gateway, NAME_SERVER, (source) => here.network.matcherOf(source));
  return { [Symbol.dispose]: () => dns.close() };
}

type Plugged = Awaited<ReturnType<PluggedNamespaces["plug"]>>;

/** How often this left a sandbox. */
async function timesSeen(what: string): Promise<number> {
  return Number(await (await fetch(`http://${OUTSIDE}/seen?what=${what}`)).text());
}

describe("addresses", () => {
  test("that are denied are rejected over every protocol, and allowed ones pass", async () => {
    await using plugged = await here.plug(deny(`${OUTSIDE}/32`));
    const probes = [...every(OUTSIDE), `tcp ${OTHER} 80`];
    await expectOnly(plugged, [`tcp ${OTHER} 80`], probes);
    await plugged.set({ ...deny(...ALL), allowRanges: [`${OUTSIDE}/32`] });
    await expectOnly(plugged, every(OUTSIDE), probes);
    await plugged.set("closed");
    await expectOnly(plugged, [], probes);
    await plugged.set("open");
    await expectOnly(plugged, probes, probes);
  });

  test("that are closed to all stay closed under every rule", async () => {
    await using plugged = await here.plug({ ...nothing, allowRanges: ALL, allowNames: ["*"], proxy });
    const probes = [...MUST_BE_CLOSED, MACHINE_ADDRESS].flatMap(every);
    expect(await plugged.reached(probes)).toEqual([]);
    await plugged.set({ ...nothing, allowRanges: ["10.0.0.0/8", "203.0.113.0/24", "169.254.0.0/16"] });
    expect(await plugged.reached(probes)).toEqual([]);
  });

  test("of a slot's previous sandbox do not apply to the next", async () => {
    const before = await here.plug({ ...deny("9.0.0.0/8"), allowNames: ["a.test"] });
    const { slot, address } = before;
    await before[Symbol.asyncDispose]();
    expect(here.relay.reported.get(address)).toBeNull();
    expect(here.network.matcherOf(address)).toBeUndefined();
    expect(await here.table()).not.toMatch(new RegExp(`slot_${slot}_(allow|deny)|chain slot_${slot}_\\w+ {\\n\\t\\t`));
  });
});

/** Holds a TCP connection and a UDP flow to an address, and reports their state for each line of input. */
const HOLDER = `
import os, socket, sys
address = (sys.argv[1], 7000)
tcp = socket.create_connection(address, 20)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(1)
def echoed(act):
    try: return act()
    except OSError: return False
def by_tcp():
    tcp.sendall(b"tcp")
    return tcp.recv(10) == b"tcp"
def by_udp():
    # What comes late is no answer to this.
    word = os.urandom(8)
    udp.sendto(word, address)
    while udp.recv(10) != word: pass
    return True
for _ in sys.stdin: print(*[name for name, act in (("tcp", by_tcp), ("udp", by_udp)) if echoed(act)], flush=True)
`;

describe("flows that are open", () => {
  /**
   * What is left of a TCP connection and a UDP flow after each change; all at once, because a cut one takes a timeout.
   */
  async function leftAfter(changes: Record<string, Egress>): Promise<Record<string, string>> {
    const left = Object.entries(changes).map(async ([name, egress]) => {
      await using plugged = await here.plug("open");
      await using holder = hold(plugged, OUTSIDE);
      await until("both are open", async () => (await holder.flows()) === "tcp udp");
      await plugged.set(egress);
      return [name, await holder.flows()] as const;
    });
    return Object.fromEntries(await Promise.all(left));
  }

  test("are cut by every rule that forbids them", async () => {
    const left = await leftAfter({
      "their address is denied": deny(`${OUTSIDE}/32`),
      "only a name could allow them": { ...deny(...ALL), allowNames: ["*"] },
      "all goes through a proxy": { ...nothing, proxy },
      "the sandbox is closed": "closed",
    });
    expect(Object.entries(left).filter(([, flows]) => flows !== "")).toEqual([]);
  });

  test.each<[string, Egress]>([
    ["another range is denied", deny("9.0.0.0/8")],
    ["all is denied but them", { ...deny(...ALL), allowRanges: [`${OUTSIDE}/32`] }],
  ])("continue when %s", async (_, egress) => {
    await using plugged = await here.plug("open");
    await using holder = hold(plugged, OUTSIDE);
    await until("both are open", async () => (await holder.flows()) === "tcp udp");
    await plugged.set(egress);
    await until("both go on", async () => (await holder.flows()) === "tcp udp");
  });

  function hold(plugged: Plugged, address: string) {
    const command = plugged.command(["python3", "-c", HOLDER, address]);
    const child = Bun.spawn(command, { stdin: "pipe", stdout: "pipe" });
    const lines = new Lines(child.stdout);
    return {
      async flows(): Promise<string> {
        child.stdin.write("\n");
        await child.stdin.flush();
        return await lines.next();
      },
      async [Symbol.asyncDispose]() {
        child.kill("SIGKILL");
        await child.exited;
      },
    };
  }
});

describe("while rules are changed again and again", () => {
  /** Keeps sending forbidden packets over TCP and UDP, beside a connection that must go on; reports their number. */
  const FLOOD = `
import socket, sys, threading
forbidden, allowed, word = (sys.argv[1], 7000), (sys.argv[2], 7000), sys.argv[3].encode()
over = threading.Event()
def count(act):
    times = 0
    while not over.is_set():
        act()
        times += 1
    return times
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def by_udp():
    try: udp.sendto(word, forbidden)
    except OSError: pass
def by_tcp():
    try:
        with socket.create_connection(forbidden, 1) as there: there.sendall(word)
    except OSError: pass
for act in (by_udp, by_tcp): threading.Thread(target=count, args=(act,), daemon=True).start()
line = socket.create_connection(allowed, 20)
def by_line():
    line.sendall(b"line")
    assert line.recv(10) == b"line"
going = threading.Thread(target=lambda: print(count(by_line), flush=True))
print("ready", flush=True)
going.start()
sys.stdin.read()
over.set()
`;
  const some = Array.from({ length: 50 }, (_, index) => `45.0.${index}.0/24`);
  const both = [
    { ...deny(...ALL), allowRanges: [`${OTHER}/32`] },
    { ...deny(`${OUTSIDE}/32`, ...some), allowRanges: [`${OTHER}/32`, "46.0.0.0/8"] },
  ];

  test("packets that both forbid never pass, and flows that both allow continue", async () => {
    const word = `leak-${crypto.randomUUID()}`;
    await using plugged = await here.plug(both[1] ?? "closed");
    const command = plugged.command(["python3", "-c", FLOOD, OUTSIDE, OTHER, word]);
    const child = Bun.spawn(command, { stdin: "pipe", stdout: "pipe" });
    const lines = new Lines(child.stdout);
    await lines.next();
    for (let update = 0; update < UPDATES; update++) await plugged.set(both[update % 2] ?? "closed");
    await child.stdin.end();
    expect(Number(await lines.next())).toBeGreaterThan(UPDATES);
    expect(await child.exited).toBe(0);
    expect(await timesSeen(word)).toBe(0);
    // The word is seen once it may leave.
    await plugged.set("open");
    const say = `import socket; socket.create_connection(("${OUTSIDE}", 7000)).sendall(b"${word}")`;
    await attempt(plugged.command(["python3", "-c", say]));
    await until("it is seen", async () => (await timesSeen(word)) > 0);
  });

  test("of many sandboxes at once, each ends with its last rules", async () => {
    const all = await Promise.all(Array.from({ length: 8 }, () => here.plug("open")));
    const last = (index: number): Egress => (index % 2 === 0 ? deny(`${OUTSIDE}/32`) : deny(`${OTHER}/32`));
    await Promise.all(
      all.flatMap((each, index) => [...both, "closed" as const, last(index)].map((to) => each.set(to))),
    );
    const probes = [`tcp ${OUTSIDE} 80`, `tcp ${OTHER} 80`];
    for (const [index, each] of all.entries()) await expectOnly(each, [probes[1 - (index % 2)] ?? ""], probes);
    await Promise.all(all.map((each) => each[Symbol.asyncDispose]()));
    expect(await here.table()).not.toMatch(/slot_\d+_(allow|deny)/);
  });
});

describe("DNS queries", () => {
  test("reach one server, whatever their destination, also a closed or denied one", async () => {
    using _dns = await answerNames();
    await using plugged = await here.plug(deny(...ALL));
    const servers = ["169.254.0.22", NAME_SERVER, "10.1.2.3", "93.184.215.99"].map((each) => `dns ${each} 53`);
    // Whether they are answered is not up to addresses: this one has no judge that knows any name.
    await plugged.set({ ...deny(...ALL), allowNames: ["*"] });
    await expectOnly(plugged, servers, servers);
    await plugged.set("closed");
    expect(await plugged.reached(servers)).toEqual([]);
  });

  // Guards against the kernel's rejection (ICMP), which is limited in rate: every second lookup then waits five
  // seconds.
  test("of a closed sandbox are each rejected with a DNS reply, over UDP and TCP", async () => {
    using _dns = await answerNames();
    await using plugged = await here.plug("closed");
    const names = Array.from({ length: 40 }, (_, index) => `a${index}.test`);
    const reported = await attempt(plugged.command(["python3", ASK, NAME_SERVER, ...names]));
    expect(reported.stdout.trim().split("\n")).toEqual(names.map((name) => `${name} udp 5 0 tcp 5 0`));
    expect(await plugged.reached([...every(OUTSIDE), `tcp ${here.network.gateway} 80`])).toEqual([]);
  });
});

describe("the relay", () => {
  const named: EgressPolicy = { ...deny(...ALL), allowRanges: [`${OTHER}/32`], allowNames: ["a.test"] };

  test("gets only connections that a name can allow, with the sandbox's own address", async () => {
    await using plugged = await here.plug(named);
    expect(here.relay.reported.get(plugged.address)).toEqual(named);
    expect(await plugged.request(OUTSIDE, 80)).toBe(`http ${plugged.address}`);
    expect(await plugged.request(OUTSIDE, 443)).toBe(`tls ${plugged.address}`);
    expect(await plugged.request(OUTSIDE, 7000)).toBe("ConnectionRefusedError");
    expect(await plugged.request(OTHER, 7000)).toBe("hello");
    expect(await plugged.request("10.1.2.3", 80)).toBe("ConnectionRefusedError");
  });

  test("gets every TCP connection of a sandbox with a proxy, and other packets do not leave", async () => {
    await using plugged = await here.plug({ ...deny(`${OTHER}/32`), allowNames: ["a.test"], proxy });
    expect(await plugged.request(OUTSIDE, 7000)).toBe(`proxied ${plugged.address}`);
    expect(await plugged.request(OTHER, 80)).toBe(`http ${plugged.address}`);
    expect(await plugged.request(OTHER, 7000)).toBe("ConnectionRefusedError");
    expect(await plugged.request("10.1.2.3", 7000)).toBe("ConnectionRefusedError");
    expect(await plugged.reached([`udp ${OUTSIDE} 7000`])).toEqual([]);
  });

  test("is not reached otherwise: by its port, without such rules, or from the machine", async () => {
    const { ports, uid } = here.relay;
    const doors = Object.values(ports).map((port) => `tcp ${here.network.gateway} ${port}`);
    for (const egress of ["open", "closed", named, { ...nothing, proxy }] as const) {
      await using plugged = await here.plug(egress);
      expect(await plugged.reached(doors)).toEqual([]);
    }
    for (const user of [0, 65_534, uid]) expect(await reachedBy(user, doors)).toEqual([]);
  });

  test("connects only to addresses that are open to sandboxes", async () => {
    using _dns = await answerNames();
    const local = Bun.serve({ hostname: "::", port: 0, fetch: () => new Response("this machine") });
    await using plugged = await here.plug("open");
    const listen = "import http.server as s; s.test(s.SimpleHTTPRequestHandler, port=8000)";
    const inside = Bun.spawn(plugged.command(["python3", "-c", listen]), { stdout: "ignore", stderr: "ignore" });
    const closed = [
      ...MUST_BE_CLOSED.flatMap(every),
      ...[MACHINE_ADDRESS, "127.0.0.1", here.network.gateway].map((address) => `tcp ${address} ${local.port}`),
      `tcp ${plugged.address} 8000`,
      "tcp 2001:db8:1::1 80",
    ];
    const open = [...every(OUTSIDE), `dns ${here.network.gateway} 53`];
    await until("root reaches all of it", async () => (await reachedBy(0, closed)).length === closed.length);
    let found: string[] = [];
    await until(
      () => `the relay reaches what it may; it reaches ${found}`,
      async () => {
        found = await reachedBy(here.relay.uid, [...open, ...closed]);
        expect(open).toEqual(expect.arrayContaining(found));
        return found.length === open.length;
      },
    );
    inside.kill("SIGKILL");
    await local.stop(true);
  });

  test("that rejects new rules keeps the old ones, and the caller gets the error", async () => {
    await using plugged = await here.plug({ ...deny(...ALL), allowRanges: [`${OTHER}/32`] });
    here.relay.fails = true;
    const refused = plugged.set({ ...named, allowRanges: [] });
    await expect(refused).rejects.toThrow("say again what is to hold");
    here.relay.fails = false;
    await expectOnly(plugged, [`tcp ${OTHER} 80`], [`tcp ${OTHER} 80`, `tcp ${OUTSIDE} 80`]);
    expect(here.network.matcherOf(plugged.address)?.mayResolve("a.test")).toBe(false);
    await plugged.set(named);
    expect(await plugged.request(OUTSIDE, 80)).toBe(`http ${plugged.address}`);
  });
});

test("a restarted server creates its table with the rules of running sandboxes", async () => {
  const named: EgressPolicy = { ...deny(...ALL), allowRanges: [`${OTHER}/32`], allowNames: ["a.test"] };
  const egresses: Egress[] = ["open", "closed", deny(`${OUTSIDE}/32`), named];
  const all = await Promise.all(egresses.map((egress) => here.plug(egress)));
  // The killed server had not recorded this one yet.
  const unknown = await here.plug(deny(`${OUTSIDE}/32`));
  await here.network.close();
  const bySlot = new Map(all.map(({ slot }, index) => [slot, egresses[index] ?? "open"]));
  await here.open(all, (slot) => bySlot.get(slot) ?? "open");
  const probes = [`tcp ${OUTSIDE} 80`, `tcp ${OTHER} 7000`];
  const [open, closed, denied, led] = all;
  if (!open || !closed || !denied || !led) throw new Error("not all were made");
  await expectOnly(open, [probes[0] ?? "", probes[1] ?? ""], probes);
  await expectOnly(closed, [], probes);
  await expectOnly(denied, [probes[1] ?? ""], probes);
  expect(await led.request(OUTSIDE, 80)).toBe(`http ${led.address}`);
  expect(await unknown.reached([...probes, `dns ${NAME_SERVER} 53`])).toEqual([]);
  await unknown[Symbol.asyncDispose]();
  await here.network.admitAll();
  await using fresh = await here.plug("open");
  await expectOnly(fresh, probes, probes);
  expect(here.network.matcherOf(led.address)?.mayResolve("a.test")).toBe(true);
  await Promise.all(all.map((each) => each[Symbol.asyncDispose]()));
  expect(await here.table()).not.toMatch(/slot_\d+_(allow|deny)/);
});
