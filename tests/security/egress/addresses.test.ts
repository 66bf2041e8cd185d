/**
 * Address rules, tried from inside a sandbox. The first test shows that each probe is answered without rules, so later
 * silence comes from the firewall.
 *
 * Guards against rules that are stored but never given to the firewall, and against a firewall that accepts allowed
 * addresses before it checks closed ones.
 */
import { beforeAll, expect, test } from "bun:test";
import { ALL_TRAFFIC, Sandbox, type SandboxNetworkUpdate } from "e2b";
import {
  INTERNET_PORTS,
  MUST_BE_CLOSED,
  OUTSIDE,
  OUTSIDE_NAME,
  SITES,
} from "../../../src/host/testing/outer-network.ts";
import { exchange, expectReached, giveProbes, reached } from "../../support/egress/probing.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const [ONE, EIGHT] = ["1.1.1.1", "8.8.8.8"];
const { http, https, quic, echo, dns, dnsTls } = INTERNET_PORTS;

/** Every way to speak to an address that is no question for a name in plain sight. */
const everyWay = (address: string) => [
  `tcp ${address} ${http}`,
  `udp ${address} ${echo}`,
  `udp ${address} ${quic}`,
  `icmp ${address} 0`,
  `dot ${address} ${dnsTls}`,
  `doh ${address} ${https}`,
];
const names = [`name ${OUTSIDE_NAME} 0`, `dns ${ONE} ${dns}`, `dns ${EIGHT} ${dns}`, `dnstcp ${EIGHT} ${dns}`];
const [allOfOne, allOfEight, allOfOutside] = [everyWay(ONE), everyWay(EIGHT), everyWay(OUTSIDE)];
const all = [...allOfOne, ...allOfEight, ...allOfOutside, ...names];

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  await giveProbes(sandbox);
});

/** Whether there is internet at all stays as it was where an update does not say it. */
async function setRules(rules: SandboxNetworkUpdate): Promise<void> {
  await sandbox.updateNetwork({ allowInternetAccess: true, ...rules });
}

/** Under these rules the sandbox reaches the addresses in `open`, and no others of `all`. */
async function expectOnly(rules: SandboxNetworkUpdate, open: readonly string[]): Promise<void> {
  await setRules(rules);
  // Probes all at once, because a closed address costs a whole timeout; then retries the late ones.
  const found = await reached(sandbox, all);
  expect(found.filter((probe) => !open.includes(probe))).toEqual([]);
  const late = open.filter((probe) => !found.includes(probe));
  if (late.length > 0) await expectReached(sandbox, late);
}

test("without rules every outside address answers over every protocol", async () => {
  await expectReached(sandbox, all);
});

test("rules that forbid nothing change nothing", async () => {
  await expectOnly({ allowOut: [ONE] }, all);
});

test("a denied address is closed over every protocol, all others are open", async () => {
  await expectOnly({ denyOut: [EIGHT] }, [...allOfOne, ...allOfOutside, ...names]);
});

test("a denied range is closed except for its allowed part: allow overrides deny", async () => {
  const rules = { denyOut: ["1.0.0.0/8", "8.8.0.0/16"], allowOut: [EIGHT] };
  await expectOnly(rules, [...allOfEight, ...allOfOutside, ...names]);
});

test("with everything denied, only allowed addresses are open, and names do not resolve", async () => {
  await expectOnly({ denyOut: [ALL_TRAFFIC], allowOut: [ONE] }, allOfOne);
});

test("denying both halves of the address space denies everything", async () => {
  await expectOnly({ denyOut: ["64.0.0.0/1", "128.0.0.0/1"], allowOut: [ONE] }, allOfOne);
});

test("with everything denied and nothing allowed, nothing leaves, in each notation", async () => {
  await expectOnly({ denyOut: [ALL_TRAFFIC] }, []);
  await expectOnly({ allowInternetAccess: false }, []);
});

test("without internet access, allowed addresses are open", async () => {
  await expectOnly({ allowInternetAccess: false, allowOut: [EIGHT] }, allOfEight);
});

test("no rule opens an address that is closed to every sandbox", async () => {
  await setRules({ allowOut: [ALL_TRAFFIC, ...MUST_BE_CLOSED, "10.0.0.0/8", "169.254.0.0/16"] });
  await expectReached(sandbox, allOfOutside);
  expect(await reached(sandbox, MUST_BE_CLOSED.flatMap(everyWay))).toEqual([]);
  await setRules({ allowOut: [...MUST_BE_CLOSED, "*"], denyOut: [ALL_TRAFFIC] });
  const web = MUST_BE_CLOSED.flatMap((address) => [
    { address, hosts: [address] },
    { address, name: "", hosts: [address] },
    { address, hosts: ["metadata.test"] },
    { address, name: "metadata.test", hosts: ["metadata.test"] },
  ]);
  const responses = (await exchange(sandbox, web)).flat();
  expect(responses.filter((text) => MUST_BE_CLOSED.some((address) => text.endsWith(`@${address}`)))).toEqual([]);
});

test("a web site denied by its address is also closed by its name", async () => {
  await setRules({ denyOut: [SITES["other.test"]] });
  const sites = ["allowed.test", "other.test"].flatMap((name) => [
    { address: name, hosts: [name] },
    { address: name, name, hosts: [name] },
  ]);
  const [plain, secure, ...denied] = await exchange(sandbox, sites);
  expect([plain, secure]).toEqual(Array(2).fill([`allowed.test@${SITES["allowed.test"]}`]));
  expect(denied.flat().filter((text) => text.includes("@"))).toEqual([]);
});

test("an update replaces all rules, and an empty one leaves none", async () => {
  await expectOnly({ denyOut: [ALL_TRAFFIC], allowOut: [ONE] }, allOfOne);
  await expectOnly({ denyOut: [ONE] }, [...allOfEight, ...allOfOutside, ...names]);
  await expectOnly({}, all);
});
