/** Connections of network namespaces with header rules, through firewall, relay and the tests' internet. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stderrLog } from "../../../src/base/log.ts";
import type { EgressPolicy, RuleAnswer } from "../../../src/contract/internal/host.ts";
import { DnsRelay } from "../../../src/egress/dns-relay.ts";
import { EgressRelay } from "../../../src/egress/egress-relay.ts";
import { authorityFile, CLOSED_EXAMPLES, NAME_SERVER, SITES } from "../../../src/host/testing/outer-network.ts";
import { Network } from "../../../src/sandbox/network/network.ts";
import { attempt } from "../../../src/system/command.ts";
import { RuleAuthority } from "../../../src/tls/rule-authority.ts";
import { until } from "../../support/until.ts";
import { PluggedNamespaces } from "../plugged-namespaces.ts";

const testRun = String(process.env.SANDLOT_TEST_RUN);
const namespaces = new PluggedNamespaces();
const troubles: string[] = [];
const asked: string[] = [];
let dns: DnsRelay;
let relay: EgressRelay;
let bundle: string;
let answer: RuleAnswer = { headers: [["X-Key", "the-value"]] };

type Plugged = Awaited<ReturnType<PluggedNamespaces["plug"]>>;

beforeAll(async () => {
  const { data } = namespaces;
  data.makeRunFolder();
  const authority = await RuleAuthority.open(data.path);
  const sites = readFileSync(authorityFile(testRun), "utf8");
  bundle = join(data.path, "bundle.pem");
  writeFileSync(bundle, `${sites}\n${authority.certificatePem}`);
  const network = new Network(data);
  namespaces.network = network;
  network.onTrouble = (address, message) => void troubles.push(`${address} ${message}`);
  network.onRuleRequest = ({ question, source, pattern, host }) => {
    asked.push(`${source} ${pattern} ${host}`);
    network.answerRule(question, answer);
  };
  await network.open(async ({ onRuleRequest, ...about }) => {
    const { leafKeyPem } = authority;
    const certificateFor = (name: string) => authority.certificateFor(name);
    const rules = { leafKeyPem, certificateFor, roots: sites, onRuleRequest: onRuleRequest };
    relay = await EgressRelay.open({ ...about, folder: data.runFolder, rules, log: stderrLog });
    return relay;
  });
  dns = await DnsRelay.open(network.gateway, NAME_SERVER, (source) => network.matcherOf(source));
});
afterAll(async () => {
  dns.close();
  await namespaces.remove();
});

function ruled(...ruleNames: string[]): EgressPolicy {
  return { allowRanges: [], allowNames: [], denyRanges: [], proxy: null, ruleNames };
}

/** Fetches a page; the sandbox believes that the name resolves to `address`. */
async function curl(plugged: Plugged, url: string, address: string, ...more: string[]): Promise<string> {
  const { hostname, protocol } = new URL(url);
  const to = `${hostname}:${protocol === "https:" ? 443 : 80}:${address}`;
  const options = ["-sS", "--max-time", "20", "--cacert", bundle, "--resolve", to];
  const { stdout, stderr } = await attempt(plugged.command(["curl", ...options, ...more, url]));
  return stdout || stderr;
}

test("only names with a rule are intercepted, and everything else goes where the sandbox sends it", async () => {
  await using plugged = await namespaces.plug(ruled("allowed.test"));
  const [allowed, other] = [SITES["allowed.test"], SITES["other.test"]];
  // The relay resolves the name: the address that the sandbox chose does not matter.
  const response = JSON.parse(await curl(plugged, "https://allowed.test/reached", other));
  expect(response).toMatchObject({ address: allowed, host: "allowed.test" });
  expect(asked.splice(0)).toEqual([`${plugged.address} allowed.test allowed.test`]);
  const issuer = await curl(plugged, "https://allowed.test/", other, "-o", "/dev/null", "-v");
  expect(issuer).toContain("Sandlot header rules");
  // Without a rule, the chosen address counts, as for a sandbox without rules.
  asked.length = 0;
  expect(JSON.parse(await curl(plugged, "https://wild.test/reached", other, "-k"))).toMatchObject({ address: other });
  expect(JSON.parse(await curl(plugged, "http://wild.test/reached", other))).toMatchObject({ address: other });
  expect(asked).toEqual([]);
});

test("a value never travels in clear text", async () => {
  await using plugged = await namespaces.plug(ruled("allowed.test"));
  const text = await curl(plugged, "http://allowed.test/", SITES["allowed.test"]);
  expect(text).toContain('"allowed.test" has the header rule "allowed.test": use https');
  expect(asked.splice(0)).toEqual([]);
});

test("a rule grants no access", async () => {
  const closed = { ...ruled("*.test"), denyRanges: ["0.0.0.0/0"], allowRanges: [`${SITES["other.test"]}/32`] };
  await using plugged = await namespaces.plug(closed);
  const [allowed, other] = [SITES["allowed.test"], SITES["other.test"]];
  expect(await curl(plugged, "https://allowed.test/", allowed)).toContain("curl: (7)");
  expect(await curl(plugged, "https://allowed.test/", other)).toContain("curl: (35)");
  await plugged.set(ruled("*.test"));
  expect(await curl(plugged, "https://private.test/", allowed)).toContain("curl: (35)");
  expect(await curl(plugged, "https://private.test/", CLOSED_EXAMPLES.private)).toContain("curl: (7)");
  expect(asked.splice(0)).toEqual([]);
});

test("a failing rule is a 502 with its reason, also in the sandbox's log", async () => {
  await using plugged = await namespaces.plug(ruled("allowed.test"));
  answer = { failure: 'header rule "allowed.test": the secret "gone" does not exist' };
  const text = await curl(plugged, "https://allowed.test/", SITES["allowed.test"], "-w", "%{http_code}");
  answer = { headers: [["X-Key", "the-value"]] };
  expect(text).toBe('header rule "allowed.test": the secret "gone" does not exist\n502');
  await until("the log has it", () => troubles.some((line) => line.includes('the secret "gone"')));
});

test("a relay that dies is replaced, and rules apply again", async () => {
  await using plugged = await namespaces.plug(ruled("allowed.test"));
  const ask = () => curl(plugged, "https://allowed.test/reached", SITES["allowed.test"]);
  asked.length = 0;
  expect(JSON.parse(await ask())).toMatchObject({ host: "allowed.test" });
  const pids = (await attempt(["pgrep", "-u", String(relay.uid)])).stdout.trim().split("\n");
  for (const pid of pids) process.kill(Number(pid), "SIGKILL");
  await until("it serves again", async () => (await ask()).startsWith("{"));
  expect(asked.splice(0)).toHaveLength(2);
});
