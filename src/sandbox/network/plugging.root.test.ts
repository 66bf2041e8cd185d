/** Interfaces of the real kernel, in the test's own namespaces. */
import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync, readlinkSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { until } from "../../base/testing/until.ts";
import { GATEWAY_MAC, NAMESERVER_ADDRESS, SANDBOX_ADDRESS, SANDBOX_MAC } from "../../contract/address-plan.ts";
import { run } from "../../system/command.ts";
import { Links } from "./links.ts";
import { INNER_INTERFACE, type OuterEnd, performLinkJob } from "./plugging.ts";

const PREFIX = `plug${process.pid.toString(36)}`;
const GROUP = 0x5a_1d_07_ff;
const namespaces: Bun.Subprocess[] = [];
afterAll(async () => {
  for (const process of namespaces) process.kill("SIGKILL");
  await Promise.all(namespaces.map(({ exited }) => exited));
});

/** An end plugged in as slot `n`, and the place where it is visible. */
async function newEnd(n: number, slotAlone = false, ...more: string[]) {
  // As that of a sandbox: an interface that comes later has no IPv6.
  const script = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; echo ready; exec sleep 1000";
  const process = Bun.spawn(["unshare", "--net", ...more, "sh", "-c", script], { stdout: "pipe" });
  namespaces.push(process);
  await process.stdout.getReader().read();
  const namespace = `/proc/${process.pid}/ns/net`;
  const [name, address] = [`${PREFIX}-${n}`, `198.19.77.${n}`];
  return { name, address, gateway: "127.0.0.1", mtu: 1400, namespace, slotAlone };
}

type End = Awaited<ReturnType<typeof newEnd>>;

const plug = (end: End) => performLinkJob({ kind: "plug", end });
const unplug = (...names: string[]) => performLinkJob({ kind: "unplug", names, group: GROUP });

/** Commands on the machine; they create both ends. */
function outerBatch({ name, address, gateway, mtu, namespace }: OuterEnd): string {
  return [
    `link add ${name} address ${GATEWAY_MAC} mtu ${mtu} type veth ` +
      `peer name ${INNER_INTERFACE} address ${SANDBOX_MAC} mtu ${mtu} netns ${namespace}`,
    `link set ${name} addrgenmode none`,
    `link set ${name} up`,
    `route replace ${address}/32 dev ${name} src ${gateway} congctl reno`,
    `neighbor replace ${address} lladdr ${SANDBOX_MAC} dev ${name} nud permanent`,
  ].join("\n");
}

/** Commands in the sandbox's namespace. */
function innerBatch({ address, gateway, slotAlone }: Pick<OuterEnd, "address" | "gateway" | "slotAlone">): string {
  const byNextHop = `via ${NAMESERVER_ADDRESS} dev ${INNER_INTERFACE} src ${address} onlink`;
  return [
    "link set lo up",
    `address add ${SANDBOX_ADDRESS}/32 dev ${slotAlone ? "lo" : INNER_INTERFACE}`,
    `address add ${address}/32 dev ${INNER_INTERFACE}`,
    `link set ${INNER_INTERFACE} addrgenmode none`,
    `link set ${INNER_INTERFACE} up`,
    `neighbor replace ${NAMESERVER_ADDRESS} lladdr ${GATEWAY_MAC} dev ${INNER_INTERFACE} nud permanent`,
    `route add default ${byNextHop}`,
    ...(slotAlone ? [] : [`route add ${gateway}/32 ${byNextHop} congctl reno`]),
  ].join("\n");
}

/** As `ip` does it. */
async function plugByTool(end: End): Promise<void> {
  await run(["ip", "-batch", "-"], { stdin: outerBatch(end) });
  await run(["nsenter", `--net=${end.namespace}`, "ip", "-batch", "-"], { stdin: innerBatch(end) });
}

/** The kernel's description of both ends, without what differs by slot or by order. */
async function seen({ name, address, namespace }: End): Promise<string[]> {
  const show = async (before: string[], device: string) => {
    const questions = [
      `-details address show dev ${device}`,
      `route show dev ${device}`,
      `neighbor show dev ${device}`,
    ];
    return await Promise.all(questions.map((question) => run([...before, "ip", ...question.split(" ")])));
  };
  const inside = ["nsenter", `--net=${namespace}`, "--"];
  const texts = [await show([], name), await show(inside, INNER_INTERFACE), await show(inside, "lo")];
  return texts.flat().map((text) =>
    text
      .replaceAll(name, "OUTER")
      .replaceAll(address, "ADDRESS")
      .replace(/^\d+: /gm, "")
      .replace(/@if\d+/g, "")
      .replace(/link-netnsid \d+/g, "")
      .replace(/^ +inet6 fe80.*\n.*\n/gm, ""),
  );
}

const interfaces = async () => {
  const shown = JSON.parse(await run(["ip", "-json", "link", "show"])) as { ifname: string }[];
  return shown.map(({ ifname }) => ifname).filter((name) => name.startsWith(PREFIX));
};

describe.each([false, true])("with the slot's address alone on the inner end: %p", (slotAlone) => {
  test("both ends are as `ip` makes them", async () => {
    const [first, second] = [await newEnd(2, slotAlone), await newEnd(3, slotAlone)];
    await plugByTool(first);
    plug(second);
    // That a cable has two ends is noted by the kernel in its own time.
    let ends: [string[], string[]] = [[], []];
    const areAlike = async () => {
      ends = [await seen(second), await seen(first)];
      return Bun.deepEquals(...ends);
    };
    await until("both are up", areAlike).catch(() => undefined);
    expect(ends[0]).toEqual(ends[1]);
    unplug(first.name, second.name);
    expect(await interfaces()).toEqual([]);
  });
});

test("connections between machine and sandbox use Reno; others the machine's default", async () => {
  const end = { ...(await newEnd(19)), gateway: "198.19.77.1" };
  await run(["ip", "address", "add", `${end.gateway}/32`, "dev", "lo"]);
  plug(end);
  const inside = ["nsenter", `--net=${end.namespace}`, "--"];
  const server = [
    "import os, socket",
    `one = socket.create_server(("${end.address}", 7))`,
    "tell = lambda socket: os.write(1, socket.getsockopt(6, 13, 16).rstrip(b'\\0'))",
    "tell(one)",
    "near, _ = one.accept()",
    "tell(near)",
    "near.recv(1)",
  ];
  const service = Bun.spawn([...inside, "python3", "-c", server.join("\n")], { stdout: "pipe" });
  const lines = service.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const usual = await lines.read();
  const client = `import socket; print(socket.create_connection(("${end.address}", 7)).getsockopt(6, 13, 16))`;
  expect(await run(["python3", "-c", client])).toStartWith("b'reno\\x00");
  expect((await lines.read()).value).toBe("reno");
  expect(usual.value).toBe(readFileSync("/proc/sys/net/ipv4/tcp_congestion_control", "utf8").trim());
  await service.exited;
  await run(["ip", "address", "delete", `${end.gateway}/32`, "dev", "lo"]);
  unplug(end.name);
});

test("the thread is in its own network namespace afterwards, also after an error", async () => {
  const own = readlinkSync("/proc/thread-self/ns/net");
  const end = await newEnd(4);
  plug(end);
  expect(readlinkSync("/proc/thread-self/ns/net")).toBe(own);
  expect(() => plug(end)).toThrow(`making the interface ${end.name} failed with EEXIST`);
  expect(readlinkSync("/proc/thread-self/ns/net")).toBe(own);
  unplug(end.name);
});

describe("for a sandbox that is restored", () => {
  const inside = (end: End) => [
    "nsenter",
    `--net=${end.namespace}`,
    `--uts=${end.namespace.replace("net", "uts")}`,
    "--",
  ];
  const settings = { "net.ipv4.ip_nonlocal_bind": "1", "net.ipv6.conf.default.disable_ipv6": "1" };

  test("the namespace has its settings before the interface, and the old address until it is settled", async () => {
    const end = await newEnd(17, false, "--uts");
    performLinkJob({ kind: "plug", end, anew: { settings, addressBefore: "198.19.77.99" } });
    const read = (name: string) => run([...inside(end), "cat", `/proc/sys/net/${name}`]);
    expect(await read("ipv4/ip_nonlocal_bind")).toBe("1\n");
    expect(await read(`ipv6/conf/${INNER_INTERFACE}/disable_ipv6`)).toBe("1\n");
    const onLoopback = () => run([...inside(end), "ip", "address", "show", "dev", "lo"]);
    expect(await onLoopback()).toContain("198.19.77.99/32");
    const process = end.namespace.replace("/ns/net", "");
    performLinkJob({ kind: "settle", process, addressBefore: "198.19.77.99" });
    expect(await onLoopback()).not.toContain("198.19.77.99");
    unplug(end.name);
  });
});

// The process may have ended, and its number be another's.
test("the machine's own network is never plugged into itself", async () => {
  const end = { ...(await newEnd(5)), namespace: "/proc/self/ns/net" };
  expect(() => plug(end)).toThrow("/proc/self/ns/net is the machine's own network namespace");
  expect(await interfaces()).toEqual([]);
});

test.each([
  ["a name that is too long", { name: "x".repeat(16) }, "cannot be the name of an interface"],
  ["no address", { address: "198.19.77.256" }, '"198.19.77.256" is not an IPv4 address'],
])("%s is refused", async (_, wrong, message) => {
  const end = await newEnd(6);
  expect(() => plug({ ...end, ...wrong })).toThrow(message);
  unplug(end.name);
});

test("an error has the kernel's message", async () => {
  const end = await newEnd(7);
  expect(() => plug({ ...end, gateway: "192.0.2.1" })).toThrow(/leading \S+ to an interface failed with EINVAL: \S/);
  unplug(end.name);
});

test("interfaces that are already gone do not prevent the removal of others", async () => {
  const ends = await Promise.all([8, 9, 10].map((n) => newEnd(n)));
  for (const end of ends) plug(end);
  unplug(`${PREFIX}-99`, ...ends.slice(0, 2).map(({ name }) => name));
  expect(await interfaces()).toEqual([`${PREFIX}-10`]);
  unplug(`${PREFIX}-10`);
  unplug(`${PREFIX}-10`, `${PREFIX}-9`);
  expect(await interfaces()).toEqual([]);
});

describe("on a dedicated thread", () => {
  const links = new Links(30);
  afterAll(() => links.close());

  test("many interfaces are made and removed at once, and the server keeps its namespace", async () => {
    const own = readlinkSync("/proc/self/ns/net");
    const ends = await Promise.all([11, 12, 13, 14, 15].map((n) => newEnd(n)));
    await Promise.all(ends.map((end) => links.do({ kind: "plug", end })));
    expect((await interfaces()).length).toBe(ends.length);
    expect(readlinkSync("/proc/self/ns/net")).toBe(own);
    await Promise.all(ends.map(({ name }) => links.unplug(name)));
    expect(await interfaces()).toEqual([]);
  });

  test("a failure has its message, and the next job runs", async () => {
    const end = await newEnd(16);
    const own = { ...end, namespace: "/proc/self/ns/net" };
    await expect(links.do({ kind: "plug", end: own })).rejects.toThrow("own network namespace");
    await links.do({ kind: "plug", end });
    await links.unplug(end.name);
  });
});

test("a packet to a sandbox arrives as soon as the sandbox is plugged in", async () => {
  const own = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const gateway = own.find(({ family, internal }) => family === "IPv4" && !internal)?.address ?? "";
  for (let round = 0; round < 20; round++) {
    const end = { ...(await newEnd(90)), gateway };
    const received = () =>
      Number(/eth0:\s*\d+\s+(\d+)/.exec(readFileSync(end.namespace.replace("ns/net", "net/dev"), "utf8"))?.[1]);
    // The sandbox has no listener, so an ICMP error follows.
    const sender = await Bun.udpSocket({ hostname: gateway, socket: { error: () => undefined } });
    plug(end);
    sender.send("x", 9, end.address);
    await until("the packet arrived", () => received() > 0);
    sender.close();
    unplug(end.name);
  }
});
