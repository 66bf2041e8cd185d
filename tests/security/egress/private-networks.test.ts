/** Private networks opened by the operator: what opens with them, and what stays closed whatever they contain. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Sandbox, Template } from "e2b";
import type { EgressPolicy } from "../../../src/contract/internal/host.ts";
import {
  CLOSED_EXAMPLES,
  enterInternet,
  INTERNET_PORTS,
  MACHINE_ADDRESS,
  MUST_BE_CLOSED,
  OUTSIDE,
} from "../../../src/host/testing/outer-network.ts";
import { giveProbes, reached } from "../../support/egress/probing.ts";
import { sandlot } from "../../support/sandlot-keys.ts";
import { startServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";
import { expectOnly, Lines, PluggedNamespaces } from "../plugged-namespaces.ts";

const { private: PRIVATE, lan: LAN, metadata: METADATA } = CLOSED_EXAMPLES;
const OTHER_PRIVATE = "192.168.1.1";
const nothing: EgressPolicy = { allowRanges: [], allowNames: [], denyRanges: [], proxy: null };
const every = (address: string) => [`tcp ${address} 80`, `udp ${address} ${INTERNET_PORTS.echo}`];

describe("rules", () => {
  const here = new PluggedNamespaces();
  beforeAll(() => here.open());
  afterAll(() => here.remove());
  const opening = (privateRanges: string[], more: Partial<EgressPolicy> = {}): EgressPolicy => ({
    ...nothing,
    privateRanges,
    ...more,
  });

  test("open their ranges to one sandbox over every protocol, and nothing else", async () => {
    await using plugged = await here.plug(opening(["10.0.0.0/8", `${LAN}/32`]));
    await using other = await here.plug("open");
    const open = [...every(PRIVATE), ...every(LAN), ...every(OUTSIDE)];
    await expectOnly(plugged, open, [...open, ...MUST_BE_CLOSED.flatMap(every)]);
    expect(await other.reached(MUST_BE_CLOSED.flatMap(every))).toEqual([]);
  });

  test("never open this machine or other sandboxes, also when a range contains them", async () => {
    const local = Bun.serve({ hostname: "0.0.0.0", port: 0, fetch: () => new Response("this machine") });
    await using other = await here.plug("open");
    const listen = "import http.server as s; s.test(s.SimpleHTTPRequestHandler, port=8000)";
    const inside = Bun.spawn(other.command(["python3", "-c", listen]), { stdout: "ignore", stderr: "ignore" });
    try {
      await until("root reaches the other", async () =>
        fetch(`http://${other.address}:8000/`).then(
          () => true,
          () => false,
        ),
      );
      const own = [MACHINE_ADDRESS, "127.0.0.1", here.network.gateway].map((address) => `tcp ${address} ${local.port}`);
      const doors = Object.values(here.relay.ports).map((port) => `tcp ${here.network.gateway} ${port}`);
      const ranges = ["0.0.0.0/0"];
      await using plugged = await here.plug(opening(ranges));
      expect(await plugged.reached([...own, ...doors, `tcp ${other.address} 8000`])).toEqual([]);
      await plugged.set(opening(ranges, { allowRanges: ranges }));
      expect(await plugged.reached([...own, ...doors, `tcp ${other.address} 8000`])).toEqual([]);
    } finally {
      inside.kill("SIGKILL");
      await local.stop(true);
    }
  });

  test("of the sandbox itself still apply to opened ranges", async () => {
    const ranges = ["10.0.0.0/8", "192.168.0.0/16"];
    await using plugged = await here.plug(opening(ranges, { denyRanges: [`${PRIVATE}/32`] }));
    const probes = [...every(PRIVATE), ...every(OTHER_PRIVATE), ...every(OUTSIDE)];
    await expectOnly(plugged, [...every(OTHER_PRIVATE), ...every(OUTSIDE)], probes);
    await plugged.set(opening(ranges, { denyRanges: ["0.0.0.0/0"], allowRanges: [`${PRIVATE}/32`] }));
    await expectOnly(plugged, every(PRIVATE), probes);
    await plugged.set("closed");
    await expectOnly(plugged, [], probes);
    const proxy = { host: "proxy.test", port: 1080, credentials: null };
    await plugged.set(opening(ranges, { proxy, denyRanges: [`${OTHER_PRIVATE}/32`] }));
    expect(await plugged.request(PRIVATE, 7000)).toBe(`proxied ${plugged.address}`);
    expect(await plugged.request(OTHER_PRIVATE, 7000)).toBe("ConnectionRefusedError");
    expect(await plugged.request(METADATA, 80)).toBe("ConnectionRefusedError");
  });

  test("that close again cut incoming packets, even if the sandbox sends nothing", async () => {
    const push = `
import socket, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("${PRIVATE}", 7100))
print("ready", flush=True)
_, whom = udp.recvfrom(10)
while True:
    udp.sendto(b"word", whom)
    time.sleep(0.02)`;
    const testRun = String(process.env.SANDLOT_TEST_RUN);
    const pushing = Bun.spawn([...enterInternet(testRun), "python3", "-c", push], { stdout: "pipe" });
    await pushing.stdout.getReader().read();
    try {
      await using plugged = await here.plug(opening(["10.0.0.0/8"]));
      const take = `
import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.sendto(b"begin", ("${PRIVATE}", 7100))
udp.recv(10)
print("begun", flush=True)
sys.stdin.readline()
# What came before the change.
udp.setblocking(False)
try:
    while True: udp.recv(10)
except BlockingIOError: pass
udp.settimeout(2)
try: print(udp.recv(10))
except TimeoutError: print("silence")`;
      const child = Bun.spawn(plugged.command(["python3", "-c", take]), { stdin: "pipe", stdout: "pipe" });
      const lines = new Lines(child.stdout);
      expect(await lines.next()).toBe("begun");
      await plugged.set("open");
      child.stdin.write("\n");
      await child.stdin.end();
      expect(await lines.next()).toBe("silence");
    } finally {
      pushing.kill("SIGKILL");
    }
  });

  test("that close again cut open connections", async () => {
    await using plugged = await here.plug(opening(["10.0.0.0/8"]));
    const holder = `
import socket
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(2)
tcp = socket.create_connection(("${PRIVATE}", 7000), 20)
def echoed(send, receive):
    try:
        send(b"word")
        return receive(10) == b"word"
    except OSError: return False
both = lambda: (echoed(tcp.sendall, tcp.recv), echoed(lambda word: udp.sendto(word, ("${PRIVATE}", 7000)), udp.recv))
while both() != (True, True): pass
print("open", flush=True)
input()
print(*both(), flush=True)`;
    const child = Bun.spawn(plugged.command(["python3", "-c", holder]), { stdin: "pipe", stdout: "pipe" });
    const lines = new Lines(child.stdout);
    expect(await lines.next()).toBe("open");
    await plugged.set("open");
    child.stdin.write("\n");
    await child.stdin.end();
    expect(await lines.next()).toBe("False False");
    expect(await here.table()).not.toMatch(/slot_\d+_near_|set opened \{[^}]*elements/);
  });

  test("hold after a restart of the server", async () => {
    const egress = opening([`${PRIVATE}/32`]);
    await using plugged = await here.plug(egress);
    await here.network.close();
    await here.open([plugged], () => egress);
    await expectOnly(plugged, every(PRIVATE), [...every(PRIVATE), ...every(OTHER_PRIVATE)]);
    await here.network.admitAll();
  });
});

describe("a server", () => {
  const folderOf = foldersOfFile();

  test("opens the ranges of its setting through pause, restart and in builds; a team's limit overrides", async () => {
    const folder = folderOf("private");
    let server = await startServer(folder, { SANDLOT_PRIVATE_RANGES: "10.1.0.0/16,lan.test" });
    const sandbox = await Sandbox.create({ ...server.options, timeoutMs: 600_000 });
    await giveProbes(sandbox);
    const probes = [PRIVATE, LAN, OTHER_PRIVATE, METADATA, MACHINE_ADDRESS].map((address) => `tcp ${address} 80`);
    const opened = (count: number) => probes.slice(0, count);
    const expectOpen = async (which: readonly string[], of = sandbox) => {
      let found: string[] = [];
      await until(
        () => `${which} are reached, not ${found}`,
        async () => {
          found = await reached(of, probes);
          return found.join() === which.join();
        },
      );
    };
    await expectOpen(opened(2));
    await sandbox.pause();
    await sandbox.connect();
    await expectOpen(opened(2));
    const reach = `python3 -c 'import urllib.request as r; r.urlopen("http://${PRIVATE}/", timeout=20)'`;
    await Template.build(Template().fromTemplate("base").runCmd(reach), "inside", server.options);
    const closed = await Sandbox.create({ ...server.options, allowInternetAccess: false });
    await giveProbes(closed);
    expect(await reached(closed, probes)).toEqual([]);
    const proxied = { address: "private.test:1080" };
    await sandbox.updateNetwork({ egressProxy: proxied });
    await sandbox.updateNetwork({});
    await server.stop();

    // A network removed from the setting is closed to running sandboxes.
    server = await startServer(folder, { SANDLOT_PRIVATE_RANGES: PRIVATE });
    const again = await Sandbox.connect(sandbox.sandboxId, server.options);
    await expectOpen(opened(1), again);
    expect(await sandlot(server, "limits", "default", `private=${OTHER_PRIVATE}`)).toContain(
      `private=${OTHER_PRIVATE}`,
    );
    const fresh = await Sandbox.create(server.options);
    await giveProbes(fresh);
    await expectOpen([`tcp ${OTHER_PRIVATE} 80`], fresh);
    // Sooner than it would hear of the limit by itself.
    await again.updateNetwork({});
    await expectOpen([`tcp ${OTHER_PRIVATE} 80`], again);
    await expect(again.updateNetwork({ egressProxy: proxied })).rejects.toThrow("closed to every sandbox");
    await server.stop();
  });
});
