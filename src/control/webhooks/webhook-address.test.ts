/** Which addresses webhooks may target. */
import { describe, expect, test } from "bun:test";
import type { networkInterfaces } from "node:os";
import { CLOSED_IPV4, CLOSED_IPV6 } from "../../contract/closed-ranges.ts";
import { checkedUrl, isInside, ownNetworks } from "./webhook-address.ts";

const own = ownNetworks({
  lan: [
    { ...entry("203.0.113.2", "IPv4"), cidr: "203.0.113.2/24" },
    { ...entry("2606:4700::2", "IPv6"), cidr: "2606:4700::2/64" },
  ],
} as ReturnType<typeof networkInterfaces>);

function entry(address: string, family: string) {
  return { address, family, netmask: "", mac: "", internal: false };
}

describe("a private address:", () => {
  test.each([
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.127.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "192.0.0.8",
    "168.63.129.16",
    "203.0.113.2",
    "203.0.113.77",
    "2606:4700::2",
    "2606:4700::99",
    "::1",
    "::",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "0:0:0:0:0:ffff:10.0.0.1",
    "::ffff:c0a8:101",
    "::FFFF:198.18.0.1",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "::ffff:0:7f00:1",
    "64:ff9b::a00:1",
    "2002:7f00:1::",
    "2001:0:1::1",
    "localhost",
    "",
    "999.1.1.1",
    "nonsense",
  ])("%s", (address) => {
    expect(isInside(address, own)).toBe(true);
  });
});

/** The first and the last address of a range. */
function ends(range: string): [string, string] {
  const [address = "", prefix = ""] = range.split("/");
  const isV4 = address.includes(".");
  const bits = isV4 ? 32n : 128n;
  const groups = isV4 ? address.split(".").map(Number) : ipv6Groups(address);
  const first = groups.reduce((number, group) => (number << (isV4 ? 8n : 16n)) | BigInt(group), 0n);
  const last = first | ((1n << (bits - BigInt(prefix))) - 1n);
  return [written(first, isV4), written(last, isV4)];
}

function ipv6Groups(address: string): number[] {
  const [before = [], after = []] = address.split("::").map((half) => half.split(":").filter((group) => group !== ""));
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => "0");
  return [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16));
}

function written(number: bigint, isV4: boolean): string {
  const [count, bits] = isV4 ? [4, 8n] : [8, 16n];
  const groups = Array.from(
    { length: count },
    (_, nth) => (number >> (BigInt(count - 1 - nth) * bits)) & ((1n << bits) - 1n),
  );
  return groups.map((group) => group.toString(isV4 ? 10 : 16)).join(isV4 ? "." : ":");
}

test.each([...CLOSED_IPV4, ...CLOSED_IPV6])("all of $range is private: $why", ({ range }) => {
  const nowhere = ownNetworks({});
  for (const address of ends(range)) expect([address, isInside(address, nowhere)]).toEqual([address, true]);
});

describe("a public address:", () => {
  test.each([
    "93.184.215.14",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "198.17.255.255",
    "198.20.0.1",
    "203.0.114.1",
    "2606:4700:0:1::1",
    "2a00:1450::1",
    "::ffff:1.1.1.1",
    "::ffff:101:101",
  ])("%s", (address) => {
    expect(isInside(address, own)).toBe(false);
  });
});

test("the machine's own addresses are private", () => {
  expect(isInside("127.0.0.1")).toBe(true);
  expect(isInside("93.184.215.14", ownNetworks({}))).toBe(false);
});

describe("a URL is rejected", () => {
  test.each([
    ["ftp://a.example/", "http or https"],
    ["file:///etc/passwd", "http or https"],
    ["javascript:1", "http or https"],
    ["a.example", "http or https"],
    ["", "http or https"],
    ["https://user@a.example/", "user name or password"],
    ["https://:pw@a.example/", "user name or password"],
    ["http://127.0.0.1/", "private address"],
    ["http://0x7f.1/", "private address"],
    ["http://2130706433/", "private address"],
    ["http://0177.0.0.1/", "private address"],
    ["http://[::1]:80/", "private address"],
    ["http://[::ffff:10.0.0.1]/", "private address"],
    ["http://198.18.0.5:49983/", "private address"],
    ["http://169.254.169.254/latest/meta-data", "private address"],
  ])("%s: %s", (url, why) => {
    expect(() => checkedUrl(url, false)).toThrow(why);
  });

  test("a private address is accepted if the operator allows it; other rules still apply", () => {
    expect(checkedUrl("http://127.0.0.1:8080/x", true).href).toBe("http://127.0.0.1:8080/x");
    expect(() => checkedUrl("ftp://127.0.0.1/", true)).toThrow("http or https");
    expect(() => checkedUrl("http://a:b@127.0.0.1/", true)).toThrow("password");
  });
});
