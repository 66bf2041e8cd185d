/** The text alone; network-walls.test.ts in tests/security sends packets against it. */
import { describe, expect, test } from "bun:test";
import { CLOSED_RANGES } from "./address-plan.ts";
import { cutOff, grant, reconnect, replaceOnLink, ruleset, withdraw } from "./ruleset.ts";

const facts = { table: "sandlot_abcd", net: 3, interfacePrefix: "slotabcd", offline: [], onLink: [] };

/** The lines of one chain, without those that say where it hangs. */
function chain(text: string, name: string): string[] {
  const body = new RegExp(`chain ${name} \\{\\n([^}]*(?:\\{[^}]*\\}[^}]*)*)\\n  \\}`).exec(text)?.[1] ?? "";
  return body
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => !line.startsWith("type "));
}

describe("the table of a server", () => {
  test("takes the place of an earlier one in the same transaction", () => {
    const lines = ruleset(facts).trim().split("\n").slice(0, 3);
    expect(lines).toEqual(["table inet sandlot_abcd", "delete table inet sandlot_abcd", "table inet sandlot_abcd {"]);
  });

  test("closes every closed range, what the machine is on, and all other sandboxes, but to whom it was granted", () => {
    const text = ruleset(facts);
    expect(text).toContain(`elements = { ${CLOSED_RANGES.join(", ")} }`);
    expect(chain(text, "to_outside")).toEqual([
      "ip saddr @offline jump refuse",
      "ct state new add @connections { ip saddr ct count over 8192 } jump refuse",
      'oifname != "slot*" ip saddr . ip daddr . tcp dport @granted accept',
      "ip daddr @closed jump refuse",
      "ip daddr @onlink jump refuse",
      'oifname "slot*" jump refuse',
    ]);
  });

  test("lets a sandbox reach of this machine its name server, what it was granted, and nothing else", () => {
    expect(chain(ruleset(facts), "to_machine")).toEqual([
      "ct state established,related accept",
      "ip saddr @offline jump refuse",
      "ip saddr . ip daddr . tcp dport @granted accept",
      "udp dport 53 add @asking { ip saddr limit rate over 200/second burst 200 packets } drop",
      "ip daddr 198.18.48.1 udp dport 53 accept",
      "ip daddr 198.18.48.1 tcp dport 53 accept",
      "jump refuse",
    ]);
  });

  test("lets none but its sandboxes and the machine itself reach the server's own address", () => {
    expect(chain(ruleset(facts), "here")).toEqual([
      'iifname "slotabcd-*" jump to_machine',
      'iifname != "lo" ip daddr 198.18.48.1 drop',
    ]);
  });

  test("lets nobody but root and what was asked for into a sandbox", () => {
    const text = ruleset(facts);
    expect(chain(text, "from_machine")).toEqual(['oifname "slotabcd-*" meta skuid != 0 drop']);
    expect(chain(text, "to_sandbox")).toEqual(["ct state established,related accept", "drop"]);
  });

  test("begins with those that were cut off before, and with the networks of the machine", () => {
    const text = ruleset({ ...facts, offline: ["198.18.48.2", "198.18.48.9"], onLink: ["192.0.2.0/24"] });
    expect(text).toEndWith(
      "add element inet sandlot_abcd onlink { 192.0.2.0/24 }\n" +
        "add element inet sandlot_abcd offline { 198.18.48.2, 198.18.48.9 }\n",
    );
    // nft refuses an empty list.
    expect(ruleset(facts)).not.toContain("add element");
  });
});

describe("a change of a set", () => {
  test("of networks replaces all of them at once, also by none", () => {
    expect(replaceOnLink("t", ["192.0.2.0/24"])).toBe(
      "flush set inet t onlink\nadd element inet t onlink { 192.0.2.0/24 }\n",
    );
    expect(replaceOnLink("t", [])).toBe("flush set inet t onlink\n");
  });

  test("cuts a sandbox off and lets the next one at its address out again", () => {
    expect(cutOff("t", "198.18.0.2")).toBe("add element inet t offline { 198.18.0.2 }\n");
    expect(reconnect("t", "198.18.0.2")).toBe("delete element inet t offline { 198.18.0.2 }\n");
  });

  test("grants one sandbox a port of an address, and takes exactly that back", () => {
    const ways = [{ address: "10.0.0.5", port: 5000 }];
    expect(grant("t", "198.18.0.2", ways)).toBe("add element inet t granted { 198.18.0.2 . 10.0.0.5 . 5000 }\n");
    expect(withdraw("t", "198.18.0.2", ways)).toBe("delete element inet t granted { 198.18.0.2 . 10.0.0.5 . 5000 }\n");
    expect(grant("t", "198.18.0.2", [])).toBe("");
    // A name may have an address twice, which nft adds but cannot delete.
    const twice = [...ways, ...ways];
    expect(withdraw("t", "198.18.0.2", twice)).toBe(withdraw("t", "198.18.0.2", ways));
  });
});
