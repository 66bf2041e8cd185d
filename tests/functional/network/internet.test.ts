/** The tests' internet answers every probe at every address, so that silence must come from the firewall. */
import { expect, test } from "bun:test";
import { authorityFile, INTERNET_ADDRESSES, INTERNET_PORTS, SITES } from "../../../src/host/testing/outer-network.ts";
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

test("every address answers over TCP, UDP, TLS and DNS", async () => {
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
    const response = JSON.parse(await curl(`https://${address}/reached`));
    expect(response).toMatchObject({ scheme: "https", address, name: null, host: address });
  }
});

test("a web site reports the address, TLS name and Host of a request", async () => {
  const to = `allowed.test:443:${SITES["other.test"]}`;
  const reported = await curl("--resolve", to, "-H", "Host: hidden.test", "https://allowed.test/reached");
  expect(JSON.parse(reported)).toEqual({
    scheme: "https",
    address: SITES["other.test"],
    name: "allowed.test",
    host: "hidden.test",
    method: "GET",
    path: "/reached",
  });
});
