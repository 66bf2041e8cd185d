import { describe, expect, test } from "bun:test";
import { Ipv4Ranges } from "./ip-range.ts";
import { openedByName, PRIVATE_ENTRIES_MAX, parsePrivateNetworks } from "./private-networks.ts";

const parse = (...entries: string[]) => parsePrivateNetworks("privateRanges", entries);

describe("private networks", () => {
  test("are ranges, addresses and names", () => {
    expect(parse("10.1.2.3/16", "192.168.1.7", "Git.Example.com.", "mirror")).toEqual({
      ranges: ["10.1.0.0/16", "192.168.1.7/32"],
      names: ["git.example.com", "mirror"],
    });
    expect(parse()).toEqual({ ranges: [], names: [] });
  });

  test.each([
    ["", "is not an IPv4 address, range or host name"],
    ["*.example.com", "is not an IPv4 address, range or host name"],
    ["https://git.test", "is not an IPv4 address, range or host name"],
    ["10.0.0.0/33", "is not an IPv4 address, range or host name"],
    ["fd00::/8", "is IPv6"],
    ["0.0.0.0/0", "wider than /8"],
    ["10.0.0.0/7", "wider than /8"],
    ["127.0.0.1", "never open to sandboxes"],
    ["198.18.0.0/16", "never open to sandboxes"],
    ["224.0.0.0/8", "never open to sandboxes"],
    ["169.254.0.0/16", "list each of their addresses by itself"],
    ["169.254.169.0/24", "list each of their addresses by itself"],
  ])("%j is refused: %s", (entry, why) => {
    const refused = expect(() => parse("10.0.0.0/8", entry));
    refused.toThrow(`privateRanges: "${entry}" `);
    refused.toThrow(why);
  });

  test(`are at most ${PRIVATE_ENTRIES_MAX}`, () => {
    const entries = Array.from({ length: PRIVATE_ENTRIES_MAX + 1 }, (_, at) => `10.0.${at}.0/24`);
    expect(() => parse(...entries)).toThrow("at most 100 entries, got 101");
    expect(parse(...entries.slice(1)).ranges).not.toBeEmpty();
  });

  test("never contain the machine, sandboxes or multicast, and metadata services only by their own address", () => {
    const wide = new Ipv4Ranges(parse("100.64.0.0/10", "168.0.0.0/8", "198.0.0.0/8", "192.0.0.0/8").ranges);
    for (const open of ["100.64.0.1", "168.63.129.15", "192.168.0.1"])
      expect([open, wide.has(open)]).toEqual([open, true]);
    for (const closed of ["100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "198.19.255.255"]) {
      expect([closed, wide.has(closed)]).toEqual([closed, false]);
    }
    expect(parse("169.254.169.254", "168.63.129.16/32").ranges).toEqual(["168.63.129.16/32", "169.254.169.254/32"]);
  });

  test("of a name are opened, except addresses that must be named themselves", () => {
    expect(openedByName(["10.1.2.3", "169.254.169.254", "127.0.0.1", "198.18.0.5", "nonsense"])).toEqual([
      "10.1.2.3/32",
    ]);
  });
});
