/** The tests' internet answers every probe at every address, so that silence must come from the firewall. */
import { expect, test } from "bun:test";
import {
  authorityFile,
  CLOSED_EXAMPLES,
  INTERNET_ADDRESSES,
  INTERNET_PORTS,
  NAME_SERVER,
  OTHER_NAME_SERVERS,
  OUTSIDE,
  SITES,
} from "../../../src/host/testing/outer-network.ts";
import { run } from "../../../src/system/command.ts";
import { until } from "../../support/until.ts";

const ca = authorityFile(String(process.env.SANDLOT_TEST_RUN));

async function curl(...args: string[]): Promise<string> {
  return await run(["curl", "-sS", "--max-time", "20", "--cacert", ca, ...args]);
}

async function probe(...probes: string[]): Promise<string[]> {
  const stdout = await run(["python3", `${import.meta.dir}/../../support/services/probe.py`, ...probes]);
  return stdout.split("\n").filter((line) => line !== "");
}

/** The addresses of a name, as `dig` would show them. */
async function addressesOf(name: string, server = NAME_SERVER): Promise<string[]> {
  const resolver = new (await import("node:dns/promises")).Resolver();
  resolver.setServers([server]);
  return await resolver.resolve4(name);
}

test("every address is there over TCP, UDP, TLS and as a name server", async () => {
  const ipv4 = INTERNET_ADDRESSES.filter((address) => !address.includes(":"));
  const probes = ipv4.flatMap((address) => [
    `tcp ${address} ${INTERNET_PORTS.http}`,
    `udp ${address} ${INTERNET_PORTS.echo}`,
    `udp ${address} ${INTERNET_PORTS.quic}`,
    `dns ${address} ${INTERNET_PORTS.dns}`,
    `dnstcp ${address} ${INTERNET_PORTS.dns}`,
    `dot ${address} ${INTERNET_PORTS.dnsTls}`,
    `doh ${address} ${INTERNET_PORTS.https}`,
  ]);
  let found: string[] = [];
  await until(
    () => `all but these answer: ${probes.filter((probe) => !found.includes(probe))}`,
    async () => {
      found = await probe(...probes);
      return found.length === probes.length;
    },
  );
  for (const address of ipv4) {
    const told = JSON.parse(await curl(`https://${address}/reached`));
    expect(told).toMatchObject({ scheme: "https", address, name: null, host: address });
  }
});

test("a web site tells by which address, name and Host it was reached", async () => {
  const to = `allowed.test:443:${SITES["other.test"]}`;
  const told = await curl("--resolve", to, "-H", "Host: hidden.test", "https://allowed.test/reached");
  expect(JSON.parse(told)).toEqual({
    scheme: "https",
    address: SITES["other.test"],
    name: "allowed.test",
    host: "hidden.test",
    method: "GET",
    path: "/reached",
  });
});

test("names lead where the table says, and one leads elsewhere the second time", async () => {
  expect(await addressesOf("alias.test")).toEqual([SITES["allowed.test"]]);
  expect(await addressesOf("deep.down.wild.test")).toEqual([SITES["wild.test"]]);
  expect(await addressesOf("mixed.test")).toEqual([CLOSED_EXAMPLES.private, SITES["allowed.test"]]);
  const own = `a${crypto.randomUUID().slice(0, 8)}.rebind.test`;
  expect(await addressesOf(own)).toEqual([SITES["allowed.test"]]);
  expect(await addressesOf(own, OTHER_NAME_SERVERS[0])).toEqual([CLOSED_EXAMPLES.metadata]);
  expect(Number(await curl(`http://${OUTSIDE}/asked?name=${own}`))).toBe(2);
});

test("what arrived is counted, also when nobody waits for an answer", async () => {
  const mark = crypto.randomUUID();
  await curl(`http://allowed.test/${mark}`, "--resolve", `allowed.test:80:${SITES["allowed.test"]}`);
  const seen = (what: string) => curl(`http://${OUTSIDE}/seen?what=${what}`);
  expect([await seen(`/${mark}`), await seen("/nothing-of-this-name")]).toEqual(["1", "0"]);
});

test("as many bytes come as were asked for", async () => {
  expect((await curl(`https://${OUTSIDE}/bytes/1000000`)).length).toBe(1_000_000);
});
