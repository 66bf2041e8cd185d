/** Connections of network namespaces, in place of sandboxes, through firewall, relay and the tests' internet. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { stderrLog } from "../../src/base/log.ts";
import type { EgressPolicy } from "../../src/contract/internal/host.ts";
import { DnsRelay } from "../../src/egress/dns-relay.ts";
import { EgressRelay } from "../../src/egress/egress-relay.ts";
import {
  authorityFile,
  CLOSED_EXAMPLES,
  enterInternet,
  MACHINE_ADDRESS,
  NAME_SERVER,
  OUTSIDE,
  SITES,
} from "../../src/host/testing/outer-network.ts";
import { Network } from "../../src/sandbox/network/network.ts";
import { attempt } from "../../src/system/command.ts";
import { until } from "../support/until.ts";
import { expectOnly, PluggedNamespaces } from "./plugged-namespaces.ts";

const testRun = String(process.env.SANDLOT_TEST_RUN);
const namespaces = new PluggedNamespaces();
/** Why connections failed, with the address of the sandbox. */
const troubles: string[] = [];
let dns: DnsRelay;
let relay: EgressRelay;

type Plugged = Awaited<ReturnType<PluggedNamespaces["plug"]>>;

beforeAll(async () => {
  namespaces.data.makeRunFolder();
  const network = new Network(namespaces.data);
  namespaces.network = network;
  network.onTrouble = (address, message) => void troubles.push(`${address} ${message}`);
  await network.open(async (about) => {
    relay = await EgressRelay.open({ ...about, folder: namespaces.data.runFolder, log: stderrLog });
    return relay;
  });
  dns = await DnsRelay.open(network.gateway, NAME_SERVER, (source) => network.matcherOf(source));
});
afterAll(async () => {
  dns.close();
  await namespaces.remove();
});

function policy(more: Partial<EgressPolicy>): EgressPolicy {
  return Object.assign({ allowRanges: [], allowNames: [], denyRanges: ["0.0.0.0/0"], proxy: null }, more);
}

/** Fetches a page; the sandbox believes that the name resolves to `address`. */
async function curl(plugged: Plugged, url: string, address: string, ...more: string[]): Promise<string> {
  const { hostname, port, protocol } = new URL(url);
  const to = `${hostname}:${port === "" ? (protocol === "https:" ? 443 : 80) : port}:${address}`;
  const options = ["-sS", "--max-time", "20", "--cacert", authorityFile(testRun), "--resolve", to];
  const { stdout, stderr } = await attempt(plugged.command(["curl", ...options, ...more, url]));
  return stdout || stderr;
}

/** Debian's SOCKS5 server at the address of front.test. */
async function openProxy(...login: string[]) {
  const port = login.length === 0 ? 1080 : 1081;
  const server = Bun.spawn([...enterInternet(testRun), "microsocks", "-p", String(port), ...login], { stderr: "pipe" });
  let output = "";
  void (async () => {
    for await (const piece of server.stderr) output += new TextDecoder().decode(piece);
  })();
  await until("the proxy listens", async () => {
    return (await attempt(["curl", "-s", "--max-time", "5", `http://${SITES["front.test"]}:${port}/`])).exitCode !== 7;
  });
  return {
    port,
    text: () => output,
    async [Symbol.asyncDispose]() {
      server.kill("SIGKILL");
      await server.exited;
    },
  };
}

test("with a proxy, all allowed connections go through it, by address or by name", async () => {
  await using server = await openProxy();
  const proxy = { host: "front.test", port: server.port, credentials: null };
  const rules = policy({ allowRanges: [`${OUTSIDE}/32`], allowNames: ["allowed.test"], proxy });
  await using plugged = await namespaces.plug(rules);
  const open = [`tcp ${OUTSIDE} 80`, `tcp ${OUTSIDE} 7000`];
  await expectOnly(plugged, open, [...open, `udp ${OUTSIDE} 7000`]);
  const response = JSON.parse(await curl(plugged, "https://allowed.test/reached", SITES["other.test"]));
  expect(response).toMatchObject({ address: SITES["allowed.test"] });
  for (const way of [`${OUTSIDE}:80`, `${OUTSIDE}:7000`, `${SITES["allowed.test"]}:443`]) {
    await until(`the proxy tells of ${way}`, () => server.text().includes(`connected to ${way}`));
  }
  expect(await plugged.reached([`tcp ${SITES["other.test"]} 7000`, `tcp ${CLOSED_EXAMPLES.private} 7000`])).toEqual([]);
});

test("a proxy gets its password; without it, or with a closed or dead proxy, nothing leaves", async () => {
  await using server = await openProxy("-u", "user", "-P", "secret");
  const at = (host: string, password: string) =>
    policy({ denyRanges: [], proxy: { host, port: server.port, credentials: { username: "user", password } } });
  await using plugged = await namespaces.plug(at(SITES["front.test"], "secret"));
  const probe = `tcp ${OUTSIDE} 80`;
  await expectOnly(plugged, [probe], [probe]);
  for (const [rules, why] of [
    [at("front.test", "wrong"), "front.test: did not grant"],
    [at("private.test", "secret"), `private.test: leads to ${CLOSED_EXAMPLES.private}, which is closed`],
    [at(CLOSED_EXAMPLES.lan, "secret"), `leads to ${CLOSED_EXAMPLES.lan}, which is closed`],
  ] as const) {
    await plugged.set(rules);
    expect(await plugged.reached([probe])).toEqual([]);
    await until(`the server hears of ${why}`, () => troubles.at(-1)?.includes(why) === true);
    expect(troubles.at(-1)).toStartWith(`${plugged.address} `);
  }
});

test("a look-up returns the address of a name and whether it is closed", async () => {
  const { network } = namespaces;
  const found = async (host: string, open: string[] = []) =>
    (await network.lookUp(host, open)).map(({ address, isClosed }) => [address, isClosed]);
  expect(await found("allowed.test")).toEqual([[SITES["allowed.test"], false]]);
  expect(await found("private.test")).toEqual([[CLOSED_EXAMPLES.private, true]]);
  for (const closed of [CLOSED_EXAMPLES.lan, MACHINE_ADDRESS, "127.0.0.1", network.gateway]) {
    expect(await found(closed)).toEqual([[closed, true]]);
  }
  expect(await found("nowhere.test")).toEqual([]);
  const open = [CLOSED_EXAMPLES.private, CLOSED_EXAMPLES.lan, MACHINE_ADDRESS].map((address) => `${address}/32`);
  expect(await found("private.test", open)).toEqual([[CLOSED_EXAMPLES.private, false]]);
  expect(await found(CLOSED_EXAMPLES.lan, open)).toEqual([[CLOSED_EXAMPLES.lan, false]]);
  expect(await found(MACHINE_ADDRESS, open)).toEqual([[MACHINE_ADDRESS, true]]);
});

test("opened private networks are reached by name and through a proxy, other ones are not", async () => {
  await using server = await openProxy();
  const privateRanges = [`${CLOSED_EXAMPLES.private}/32`];
  const named = policy({ allowNames: ["private.test", "metadata.test", "lan.test"], privateRanges });
  await using plugged = await namespaces.plug(named);
  await using other = await namespaces.plug(policy({ allowNames: ["private.test"] }));
  const response = JSON.parse(await curl(plugged, "http://private.test/reached", CLOSED_EXAMPLES.private));
  expect(response).toMatchObject({ address: CLOSED_EXAMPLES.private, host: "private.test" });
  for (const name of ["metadata.test", "lan.test"]) {
    expect(await curl(plugged, `http://${name}/`, SITES["allowed.test"])).toContain("closed to every sandbox");
  }
  expect(await curl(other, "http://private.test/", SITES["allowed.test"])).toContain("closed to every sandbox");
  expect(await other.reached([`tcp ${CLOSED_EXAMPLES.private} 80`])).toEqual([]);

  const proxy = { host: "front.test", port: server.port, credentials: null };
  await plugged.set(policy({ denyRanges: [], proxy, privateRanges }));
  await expectOnly(
    plugged,
    [`tcp ${CLOSED_EXAMPLES.private} 7000`],
    [`tcp ${CLOSED_EXAMPLES.private} 7000`, `tcp ${CLOSED_EXAMPLES.lan} 7000`],
  );
  await until("the proxy tells of it", () => server.text().includes(`connected to ${CLOSED_EXAMPLES.private}`));
  await plugged.set(policy({ allowNames: ["private.test"] }));
  expect(await curl(plugged, "http://private.test/", SITES["allowed.test"])).toContain("closed to every sandbox");
});

// Guards against a process of root that answers in place of the relay. This is the last test: the relay is gone
// afterwards.
test("when the relay is gone, a process on its port gets no connection of a sandbox", async () => {
  await using plugged = await namespaces.plug(policy({ allowNames: ["allowed.test"] }));
  const ask = () => curl(plugged, "http://allowed.test/reached", SITES["allowed.test"], "--connect-timeout", "2");
  expect(JSON.parse(await ask())).toMatchObject({ host: "allowed.test" });
  await relay.close();
  let connections = 0;
  const socket = { open: () => void connections++, data: () => undefined };
  using _foreign = Bun.listen({ hostname: namespaces.network.gateway, port: relay.ports.http, socket });
  expect(await ask()).toContain("curl: (28)");
  expect(connections).toBe(0);
});
