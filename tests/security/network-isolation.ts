/**
 * What a sandbox reaches: the internet if allowed, and never this machine, its neighbours or private networks. Every
 * closed address is first shown to answer, so that silence comes from the firewall.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import type { Sandbox } from "e2b";
import { gatewayAddress } from "../../src/contract/address-plan.ts";
import type { RuntimeName } from "../../src/contract/runtime-name.ts";
import {
  enterInternet,
  MACHINE_ADDRESS,
  MUST_BE_CLOSED,
  NAME_SERVER,
  OUTSIDE,
  OUTSIDE_IPV6,
  OUTSIDE_NAME,
} from "../../src/host/testing/outer-network.ts";
import { run } from "../../src/system/command.ts";
import { DataFolder } from "../../src/system/data-folder.ts";
import { expectReached, giveProbes, reached } from "../support/egress/probing.ts";
import { startListening } from "../support/listening.ts";
import { rawRequest } from "../support/raw-request.ts";
import type { TestServer } from "../support/server.ts";

const ECHO_PORT = 7000;

interface Connected {
  /** May reach the outside. */
  open: Sandbox;
  /** Was made without internet access. */
  offline: Sandbox;
  /** Like `open`, but without an explicit setting. */
  neighbour: Sandbox;
}

/** Those of `probes` that are answered to a neighbour on the machine's uplink. */
async function reachedFromInternet(probes: readonly string[]): Promise<string[]> {
  const probe = join(import.meta.dir, "../support/services/probe.py");
  const stdout = await run([...enterInternet(String(process.env.SANDLOT_TEST_RUN)), "python3", probe, ...probes]);
  return stdout.split("\n").filter((line) => line !== "");
}

const everyWay = (address: string) => [`tcp ${address} 80`, `udp ${address} ${ECHO_PORT}`, `icmp ${address} 0`];
const outside = [...everyWay(OUTSIDE), `name ${OUTSIDE_NAME} 0`];

async function answersThisMachine(url: string): Promise<boolean> {
  return await fetch(url, { signal: AbortSignal.timeout(20_000) }).then(
    (response) => response.ok,
    () => false,
  );
}

function addressesOfMachine(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  return all.map(({ address }) => address).filter((address) => !address.startsWith("fe80"));
}

/** Where `sandbox` is in the network of this machine. */
async function slotAddress(sandbox: Sandbox): Promise<string> {
  const { stdout } = await sandbox.commands.run("ip -json -4 address show dev eth0 | jq -r '.[].addr_info[].local'");
  const address = stdout.split("\n").find((line) => line.startsWith("198."));
  if (address === undefined) throw new Error(`no slot address in ${stdout}`);
  return address;
}

/** The tests of network isolation. `make` makes the sandboxes, behind `runtime`; they run from then on. */
export function testNetworkIsolation(
  server: () => TestServer,
  make: () => Promise<Connected>,
  runtime: RuntimeName = "crun",
): void {
  let open: Sandbox;
  let offline: Sandbox;
  let neighbour: Sandbox;
  /** Something of this machine's own that listens on all its addresses. */
  let own: ReturnType<typeof Bun.serve> | undefined;

  beforeAll(async () => {
    ({ open, offline, neighbour } = await make());
    for (const sandbox of [open, offline, neighbour]) await giveProbes(sandbox);
    own = Bun.serve({ hostname: "::", port: 0, fetch: () => new Response("this machine") });
  });
  afterAll(async () => {
    await own?.stop(true);
  });

  test("the outside is reached by address and by name, over TCP, UDP and ICMP", async () => {
    await expectReached(open, outside);
    const curl = (url: string) => open.commands.run(`curl -sS --connect-timeout 20 ${url}`);
    expect((await curl(`http://${OUTSIDE}/`)).stdout).toBe("hello from outside");
    expect((await curl(`http://${OUTSIDE_NAME}/`)).stdout).toBe("hello from outside");
  });

  test("the outside is reached by default", async () => {
    const { stdout } = await neighbour.commands.run(`curl -sS --connect-timeout 20 http://${OUTSIDE_NAME}/`);
    expect(stdout).toBe("hello from outside");
  });

  test("a name that does not exist gets a reply at once", async () => {
    const { stdout } = await open.commands.run("getent hosts no-such-name.test; echo code $?", { timeoutMs: 5_000 });
    expect(stdout).toBe("code 2\n");
  });

  test("without internet access nothing outside is reached over TCP, UDP, ICMP or DNS", async () => {
    const servers = [`dns ${NAME_SERVER} 53`, "dns 169.254.0.22 53", "dns 1.1.1.1 53"];
    await expectReached(open, ["dns 169.254.0.22 53", `dns ${NAME_SERVER} 53`]);
    expect(await reached(offline, [...outside, ...servers])).toEqual([]);
  });

  test("without internet access a sandbox works inside and is reachable from outside", async () => {
    await startListening(offline, "exec python3 -u -m http.server 8000 --directory /etc");
    expect((await offline.commands.run("curl -sS http://localhost:8000/hostname")).stdout).toBe("e2b.local\n");
    const { body } = await rawRequest(server().url, { target: "/hostname", host: `8000-${offline.sandboxId}.a.test` });
    expect(body).toBe("e2b.local\n");
    expect((await offline.getInfo()).allowInternetAccess).toBe(false);
  });

  test("private networks, metadata services and the machine's LAN are closed to all, over every protocol", async () => {
    for (const address of MUST_BE_CLOSED) expect(await answersThisMachine(`http://${address}/`)).toBe(true);
    const probes = MUST_BE_CLOSED.flatMap(everyWay);
    for (const sandbox of [open, offline]) expect(await reached(sandbox, probes)).toEqual([]);
  });

  test("a name that resolves to a metadata service is not reached", async () => {
    const names = ["metadata.google.internal", "metadata", "instance-data"];
    const entries = names.map((name) => `169.254.169.254 ${name}`).join("\\n");
    await open.commands.run(`printf '${entries}\\n' >> /etc/hosts`, { user: "root" });
    // The names do lead there; it is the way that is closed.
    expect((await open.commands.run("getent hosts metadata.google.internal")).stdout).toContain("169.254.169.254");
    expect(
      await reached(
        open,
        names.map((name) => `tcp ${name} 80`),
      ),
    ).toEqual([]);
  });

  test("this machine and the server are closed under all addresses", async () => {
    const ownPort = own?.port;
    const urlOf = (address: string) => `http://${address.includes(":") ? `[${address}]` : address}:${ownPort}/`;
    const request = addressesOfMachine();
    const answers = new Map<string, boolean>();
    for (const address of request) answers.set(address, await answersThisMachine(urlOf(address)));
    // Servers of other files come and go, with an address each.
    const ours = addressesOfMachine().filter((address) => answers.has(address));
    expect(ours).toContain(MACHINE_ADDRESS);
    expect(ours.filter((address) => answers.get(address) !== true)).toEqual([]);
    const serverPort = new URL(server().url).port;
    const probes = [...ours, "169.254.0.22", "203.0.113.1", "0.0.0.0"].flatMap((address) => [
      `tcp ${address} ${ownPort}`,
      `tcp ${address} ${serverPort}`,
    ]);
    for (const sandbox of [open, offline]) expect(await reached(sandbox, probes)).toEqual([]);
    const pings = ours
      .filter((address) => address !== "127.0.0.1" && address !== "::1")
      .map((address) => `icmp ${address} 0`);
    expect(await reached(open, pings)).toEqual([]);
  });

  test("the relay's address does not answer on the machine's other interfaces", async () => {
    const { runFolder } = new DataFolder(server().dataFolder);
    const gateway = gatewayAddress(Number(readFileSync(join(runFolder, "net"), "utf8")));
    const ports = [53, own?.port].map((port) => `tcp ${gateway} ${port}`);
    const probes = [`dns ${gateway} 53`, ...ports, `tcp ${MACHINE_ADDRESS} ${own?.port}`];
    // The machine is reachable from there, and its own service here answers at the relay's address, too.
    expect(await reachedFromInternet(probes)).toEqual([`tcp ${MACHINE_ADDRESS} ${own?.port}`]);
    expect(await answersThisMachine(`http://${gateway}:${own?.port}/`)).toBe(true);
    await expectReached(open, [`dns ${gateway} 53`, "dns 169.254.0.22 53"]);
  });

  test("a neighbour is closed to sandboxes, although the server reaches it", async () => {
    await startListening(neighbour, "exec python3 -u -m http.server 8000 --bind 0.0.0.0");
    const { status } = await rawRequest(server().url, { target: "/", host: `8000-${neighbour.sandboxId}.a.test` });
    expect(status).toBe(200);
    const address = await slotAddress(neighbour);
    expect(address).not.toBe(await slotAddress(open));
    expect(await answersThisMachine(`http://${address}:8000/`)).toBe(true);
    const probes = [`tcp ${address} 8000`, `tcp ${address} 49983`, `icmp ${address} 0`];
    await expectReached(neighbour, probes);
    for (const sandbox of [open, offline]) expect(await reached(sandbox, probes)).toEqual([]);
  });

  test("IPv6 reaches only the sandbox itself", async () => {
    expect(await answersThisMachine(`http://[${OUTSIDE_IPV6}]/`)).toBe(true);
    const probes = [
      `tcp ${OUTSIDE_IPV6} 80`,
      `udp ${OUTSIDE_IPV6} ${ECHO_PORT}`,
      `icmp ${OUTSIDE_IPV6} 0`,
      "icmp 2001:db8::2 0",
    ];
    expect(await reached(open, probes)).toEqual([]);
    await expectReached(open, ["icmp ::1 0"]);
  });

  test("root inside cannot change the network", async () => {
    for (const attempt of [
      "ip address add 203.0.113.77/24 dev eth0",
      "ip route add 10.0.0.0/8 dev eth0",
      "ip link set eth0 down",
      "ip link add extra type dummy",
      // With runsc this is a setting of gVisor's own network, which has one interface.
      ...(runtime === "crun" ? ["sysctl -w net.ipv4.ip_forward=1"] : []),
      "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
      "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)'",
    ]) {
      const { stdout } = await open.commands.run(`${attempt} > /dev/null 2>&1 && echo done || echo refused`, {
        user: "root",
      });
      expect({ attempt, stdout }).toEqual({ attempt, stdout: "refused\n" });
    }
    await expectReached(open, everyWay(OUTSIDE));
  });
}
