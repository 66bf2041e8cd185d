/** The text of the ruleset; network-isolation.test.ts in tests/security sends packets against it. */
import { describe, expect, test } from "bun:test";
import { CLOSED_RANGES } from "../../contract/address-plan.ts";
import { edgeId } from "../../system/id-range.ts";
import { admitAll, replaceOnLink, ruleset } from "./ruleset.ts";

const relay = { uid: 4321, ports: { http: 1080, tls: 1443, proxied: 1999 } };
const facts = {
  table: "sandlot_abcd",
  net: 3,
  interfacePrefix: "slotabcd",
  slots: [],
  onLink: [],
  relay,
  admitted: undefined,
};

/** The rules of one chain, without the lines that attach it to a hook. */
function chain(text: string, name: string): string[] {
  const body = new RegExp(`chain ${name} \\{\\n([^}]*(?:\\{[^}]*\\}[^}]*)*)\\n  \\}`).exec(text)?.[1] ?? "";
  return body
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => !line.startsWith("type "));
}

describe("the table of a server", () => {
  test("replaces an earlier one in the same transaction", () => {
    const lines = ruleset(facts).trim().split("\n").slice(0, 3);
    expect(lines).toEqual(["table inet sandlot_abcd", "delete table inet sandlot_abcd", "table inet sandlot_abcd {"]);
  });

  test("closes every closed range, the machine's networks and other sandboxes, whatever a policy allows", () => {
    const text = ruleset(facts);
    expect(text).toContain(`elements = { ${CLOSED_RANGES.join(", ")} }`);
    expect(chain(text, "to_outside")).toEqual([
      "jump admit",
      "udp dport 53 jump refuse",
      "tcp dport 53 jump refuse",
      "ct state new add @connections { ip saddr ct count over 8192 } jump refuse",
      "ip saddr vmap @slots_out",
      "ip daddr @closed jump refuse",
      "ip daddr @onlink jump refuse",
      'oifname "slot*" jump refuse',
    ]);
  });

  test("redirects every DNS query to the DNS relay, and no closed address to the relay", () => {
    expect(chain(ruleset(facts), "lead")).toEqual([
      "udp dport 53 dnat ip to 198.18.48.1:53",
      "tcp dport 53 dnat ip to 198.18.48.1:53",
      "fib daddr type local return",
      "ip saddr vmap @slots_near",
      "ip daddr @closed return",
      "ip daddr @onlink return",
      "ip saddr vmap @slots_led",
    ]);
  });

  test("lets a sandbox reach only its name server and its relay on this machine", () => {
    expect(chain(ruleset(facts), "to_machine")).toEqual([
      "ct state established,related ct direction reply accept",
      "jump admit",
      "meta l4proto tcp ct state new add @connections { ip saddr ct count over 8192 } jump refuse",
      "udp dport 53 add @asking { ip saddr limit rate over 200/second burst 200 packets } drop",
      "ip saddr vmap @slots_here",
      "ip daddr 198.18.48.1 udp dport 53 accept",
      "ip daddr 198.18.48.1 tcp dport 53 accept",
      "jump refuse",
    ]);
  });

  test("lets only sandboxes reach the relay, and this machine also the server's address", () => {
    expect(chain(ruleset(facts), "here")).toEqual([
      'iifname "slotabcd-*" jump to_machine',
      "ip daddr 198.18.48.1 tcp dport { 1080, 1443, 1999 } jump refuse",
      'iifname != "lo" ip daddr 198.18.48.1 drop',
    ]);
    expect(chain(ruleset({ ...facts, relay: undefined }), "here")).toHaveLength(2);
  });

  test("lets only root, the edge, the relay and replies into a sandbox", () => {
    const text = ruleset(facts);
    const others = [`meta skuid ${edgeId(facts.net)} jump from_edge`, 'oifname "slotabcd-*" meta skuid != 0 drop'];
    expect(chain(text, "from_machine")).toEqual([
      "ip saddr 198.18.48.1 tcp sport { 1080, 1443, 1999 } meta skuid != 4321 drop",
      "meta skuid 4321 jump from_relay",
      ...others,
    ]);
    expect(chain(ruleset({ ...facts, relay: undefined }), "from_machine")).toEqual(others);
    expect(chain(text, "to_sandbox")).toEqual([
      "ip daddr vmap @slots_in",
      "ct original ip daddr @closed drop",
      "ct original ip daddr @onlink drop",
      "ct state established,related accept",
      "drop",
    ]);
  });

  test("lets only the edge open connections to its sandboxes", () => {
    expect(chain(ruleset(facts), "from_edge")).toEqual([
      'oifname "slotabcd-*" accept',
      "meta l4proto != tcp jump refuse",
      "tcp flags & (fin | syn | rst | ack) == syn jump refuse",
    ]);
  });

  test("lets the relay out where sandboxes may go, and to the name server", () => {
    expect(chain(ruleset(facts), "from_relay")).toEqual([
      'oifname "slotabcd-*" ip daddr vmap @slots_relay',
      'oifname "slotabcd-*" drop',
      'oifname "slot*" return',
      'oifname "lo" ip daddr 198.18.0.0/15 udp dport 53 accept',
      'oifname "lo" ip daddr 198.18.0.0/15 tcp dport 53 accept',
      "meta nfproto != ipv4 drop",
      "fib daddr type != unicast jump refuse",
      "ip daddr @opened accept",
      "ip daddr @closed jump refuse",
      "ip daddr @onlink jump refuse",
    ]);
  });

  test("starts with the rules of its sandboxes and the machine's networks", () => {
    const slots = [9, 12].map((slot) => ({
      slot,
      version: 1,
      rules: { egress: "closed" as const, openAddresses: [] },
    }));
    const text = ruleset({ ...facts, slots, onLink: ["192.0.2.0/24"] });
    expect(text).toContain("set onlink { type ipv4_addr; flags interval; auto-merge; elements = { 192.0.2.0/24 } }");
    for (const slot of [9, 12]) expect(text).toContain(`chain slot_${slot}_out {\n    jump refuse`);
    // nft rejects an empty list.
    expect(ruleset(facts).match(/elements = /g)).toHaveLength(1);
  });
});

test("sandboxes without a record are blocked until all are admitted", () => {
  const rules = (admitted: readonly string[] | undefined) => chain(ruleset({ ...facts, admitted }), "admit");
  expect(rules(["198.18.48.7", "198.18.48.9"])).toEqual(["ip saddr != { 198.18.48.7, 198.18.48.9 } jump refuse"]);
  expect(rules([])).toEqual(["jump refuse"]);
  expect(rules(undefined)).toEqual([""]);
  expect(admitAll("t")).toBe("flush chain inet t admit\n");
});

test("a change of networks replaces all at once, also with none", () => {
  const set = "set onlink { type ipv4_addr; flags interval; auto-merge; elements = { 192.0.2.0/24 } }";
  expect(replaceOnLink("t", ["192.0.2.0/24"])).toBe(`flush set inet t onlink\ntable inet t {\n  ${set}\n}\n`);
  expect(replaceOnLink("t", [])).toBe("flush set inet t onlink\n");
});
