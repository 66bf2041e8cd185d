/** The text alone; egress-rules.test.ts in tests/security sends packets against it. */
import { describe, expect, test } from "bun:test";
import type { Egress, EgressPolicy } from "../../contract/internal/host.ts";
import { fillChains, makeSets, removeSets, type SlotRules, type TableFacts } from "./slot-chains.ts";

const facts = { table: "t", net: 0, relay: { uid: 4321, ports: { http: 1080, tls: 1443, proxied: 1999 } } };
const nothing: EgressPolicy = { allowRanges: [], allowNames: [], denyRanges: [], proxy: null };
const proxy = { host: "proxy.test", port: 1080, credentials: null };
const ALL = ["0.0.0.0/0"];

const state = (rules: SlotRules) => ({ slot: 7, version: 3, rules });

/** The rules of each chain that has some. */
function chains(egress: Egress, { of = facts as TableFacts, openAddresses = [] as SlotRules["openAddresses"] } = {}) {
  const text = fillChains(of, state({ egress, openAddresses }));
  const found = [...text.matchAll(/chain slot_7_(\w+) \{\n([^}]*(?:\{[^}]*\}[^}]*)*)\n {2}\}/g)].map(
    ([, way, body = ""]) => [way, body.split("\n").map((line) => line.trim())] as const,
  );
  return Object.fromEntries(found);
}

describe("the chains of a sandbox", () => {
  test("are empty for an open sandbox, except for routes opened to it alone", () => {
    expect(chains("open")).toEqual({});
    expect(chains("open", { openAddresses: [{ address: "10.0.0.5", port: 5000 }] })).toEqual({
      out: ['oifname != "slot*" ip daddr 10.0.0.5 tcp dport 5000 accept'],
      in: ["ct original ip daddr 10.0.0.5 ct state established,related accept"],
      here: ["ip daddr 10.0.0.5 tcp dport 5000 accept"],
    });
  });

  test("reject all packets of a closed sandbox, also on routes opened before", () => {
    expect(chains("closed", { openAddresses: [{ address: "10.0.0.5", port: 5000 }] })).toEqual({
      out: ["jump refuse"],
      in: ["drop"],
    });
  });

  test("check allowed ranges first, also for replies", () => {
    expect(chains({ ...nothing, allowRanges: ["1.1.1.1/32"], denyRanges: ["1.0.0.0/8"] })).toEqual({
      out: ["ip daddr @slot_7_allow_3 return", "ip daddr @slot_7_deny_3 jump refuse"],
      in: ["ct original ip daddr @slot_7_allow_3 return", "ct original ip daddr @slot_7_deny_3 drop"],
    });
    expect(chains({ ...nothing, denyRanges: ALL })).toEqual({ out: ["jump refuse"], in: ["drop"] });
    expect(chains({ ...nothing, allowRanges: ALL })).toEqual({ out: ["return"], in: ["return"] });
    expect(chains(nothing)).toEqual({});
  });

  test("redirect all connections that can have a header rule to the relay, also to allowed addresses", () => {
    const here = ["ct status dnat ip daddr 198.18.0.1 tcp dport { 1080, 1443, 1999 } accept"];
    const read = ["tcp dport 80 dnat ip to 198.18.0.1:1080", "tcp dport 443 dnat ip to 198.18.0.1:1443"];
    expect(chains({ ...nothing, ruleNames: ["a.test"] })).toEqual({
      led: read,
      here,
      relay: ["ct direction reply ct status dnat accept"],
    });
    const some = { ...nothing, allowRanges: ["1.1.1.1/32"], denyRanges: ["9.0.0.0/8"], ruleNames: ["a.test"] };
    expect(chains(some).led).toEqual([
      ...read.map((rule) => `ip daddr @slot_7_allow_3 ${rule}`),
      "ip daddr @slot_7_allow_3 return",
      "ip daddr @slot_7_deny_3 return",
      ...read,
    ]);
    expect(chains({ ...some, proxy }).led).toEqual(chains({ ...some, ruleNames: [], proxy }).led);
    expect(chains({ ...nothing, ruleNames: [] })).toEqual({});
  });

  test("redirect connections that only a name can allow to the relay", () => {
    const here = ["ct status dnat ip daddr 198.18.0.1 tcp dport { 1080, 1443, 1999 } accept"];
    const relay = ["ct direction reply ct status dnat accept"];
    const named = { ...nothing, allowRanges: ["1.1.1.1/32"], allowNames: ["a.test"], denyRanges: ALL };
    expect(chains(named)).toMatchObject({
      out: ["ip daddr @slot_7_allow_3 return", "jump refuse"],
      led: [
        "ip daddr @slot_7_allow_3 return",
        "tcp dport 80 dnat ip to 198.18.0.1:1080",
        "tcp dport 443 dnat ip to 198.18.0.1:1443",
        "return",
      ],
      here,
      relay,
    });
    const some = chains({ ...named, denyRanges: ["9.0.0.0/8"] });
    expect(some.led?.slice(1)).toEqual([
      "ip daddr @slot_7_deny_3 tcp dport 80 dnat ip to 198.18.0.1:1080",
      "ip daddr @slot_7_deny_3 tcp dport 443 dnat ip to 198.18.0.1:1443",
      "ip daddr @slot_7_deny_3 return",
    ]);
    expect(Object.keys(chains(named, { of: { ...facts, relay: undefined } }))).toEqual(["out", "in"]);
  });

  test("with a proxy redirect every allowed TCP connection to the relay, and reject the rest", () => {
    const all = "meta l4proto tcp dnat ip to 198.18.0.1:1999";
    expect(chains({ ...nothing, proxy })).toMatchObject({ out: ["jump refuse"], in: ["drop"], led: [all] });
    const some = { ...nothing, allowRanges: ["1.1.1.1/32"], allowNames: ["a.test"], denyRanges: ["1.0.0.0/8"], proxy };
    expect(chains(some).led).toEqual([
      `ip daddr @slot_7_allow_3 ${all}`,
      "ip daddr @slot_7_deny_3 tcp dport 80 dnat ip to 198.18.0.1:1080",
      "ip daddr @slot_7_deny_3 tcp dport 443 dnat ip to 198.18.0.1:1443",
      "ip daddr @slot_7_deny_3 return",
      all,
    ]);
    expect(chains({ ...nothing, denyRanges: ["1.0.0.0/8"], proxy }).led).toEqual([
      "ip daddr @slot_7_deny_3 return",
      all,
    ]);
  });

  test("allow opened private networks like the outside, and never other sandboxes", () => {
    const near = { ...nothing, privateRanges: ["10.0.0.0/8"] };
    const into = 'ip daddr @slot_7_near_3 ip daddr != 198.18.0.0/15 oifname != "slot*" accept';
    const back = "ct original ip daddr @slot_7_near_3 ct state established,related accept";
    expect(chains(near)).toEqual({ out: [into], in: [back] });
    expect(chains({ ...near, denyRanges: ["10.1.0.0/16"], allowRanges: ["10.1.1.1/32"] })).toEqual({
      out: [
        `ip daddr @slot_7_allow_3 ${into}`,
        "ip daddr @slot_7_allow_3 return",
        "ip daddr @slot_7_deny_3 jump refuse",
        into,
      ],
      in: [
        `ct original ip daddr @slot_7_allow_3 ${back}`,
        "ct original ip daddr @slot_7_allow_3 return",
        "ct original ip daddr @slot_7_deny_3 drop",
        back,
      ],
    });
    const named = chains({ ...near, denyRanges: ALL, allowNames: ["a.test"] });
    expect(named).toMatchObject({ out: ["jump refuse", into], near: ["ip daddr @slot_7_near_3 jump slot_7_led"] });
    expect(chains({ ...near, proxy })).toMatchObject({
      out: ["jump refuse"],
      in: ["drop"],
      near: ["ip daddr @slot_7_near_3 jump slot_7_led"],
    });
    expect(makeSets(facts, state({ egress: near, openAddresses: [] }))).toContain("10.0.0.0-10.255.255.255");
  });

  test("are replaced in one transaction, and found by the address of the slot", () => {
    const text = fillChains(facts, state({ egress: "closed", openAddresses: [] }));
    expect(text.indexOf("flush chain inet t slot_7_out")).toBeLessThan(text.indexOf("jump refuse"));
    expect(text).toContain("map slots_out { type ipv4_addr : verdict; elements = { 198.18.0.7 : jump slot_7_out } }");
    // nft would read all sets of the machine for these.
    expect(text).not.toMatch(/^(add|delete) element/m);
  });
});

describe("the sets of a sandbox", () => {
  const ruled = state({
    egress: { ...nothing, allowRanges: ["1.1.1.1/32", "1.1.1.0/24", "2.0.0.0/8"], denyRanges: ["9.9.9.9/32"] },
    openAddresses: [],
  });

  test("hold merged ranges", () => {
    expect(makeSets(facts, ruled).split("\n").slice(1, 3)).toEqual([
      "  set slot_7_allow_3 { type ipv4_addr; flags interval; elements = { 1.1.1.0-1.1.1.255, 2.0.0.0-2.255.255.255 } }",
      "  set slot_7_deny_3 { type ipv4_addr; flags interval; elements = { 9.9.9.9 } }",
    ]);
  });

  test("are absent for no ranges or all addresses", () => {
    for (const egress of ["open", "closed", { ...nothing, denyRanges: ALL, allowNames: ["*"] }] as const) {
      expect(makeSets(facts, state({ egress, openAddresses: [] }))).toBe("");
      expect(removeSets(facts, [state({ egress, openAddresses: [] })])).toBe("");
    }
  });

  test("are removed even if it is unknown whether they were made", () => {
    expect(removeSets(facts, [ruled])).toBe(`table inet t {
  set slot_7_allow_3 { type ipv4_addr; flags interval; }
  set slot_7_deny_3 { type ipv4_addr; flags interval; }
}
delete set inet t slot_7_allow_3
delete set inet t slot_7_deny_3
`);
  });
});
