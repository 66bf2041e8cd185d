import { describe, expect, test } from "bun:test";
import { EdgeUnderTest } from "../testing/edge-under-test.ts";
import { clientAddress, TrustedProxies } from "./client-address.ts";

const PROXY = "10.0.0.1";
const trusted = new TrustedProxies(["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]);

const from = (peer: string, headers: Record<string, string>) => clientAddress(peer, new Headers(headers), trusted);

test("without trusted proxies, the client is the peer, whatever its headers", () => {
  const headers = new Headers({ "x-forwarded-for": "1.1.1.1", forwarded: "for=1.1.1.1" });
  expect(clientAddress(PROXY, headers, new TrustedProxies([]))).toBe(PROXY);
});

test("a peer that is not a trusted proxy is the client, whatever its headers", () => {
  expect(from("8.8.8.8", { "x-forwarded-for": "1.1.1.1" })).toBe("8.8.8.8");
  expect(from("8.8.8.8", { forwarded: "for=1.1.1.1" })).toBe("8.8.8.8");
  expect(from("2001:db9::1", { "x-forwarded-for": "1.1.1.1" })).toBe("2001:db9::1");
});

describe("X-Forwarded-For of a trusted proxy", () => {
  test.each([
    ["9.9.9.9", "9.9.9.9"],
    [" 9.9.9.9 ", "9.9.9.9"],
    // Entries to the left of the client's address came from the client.
    ["1.1.1.1, 9.9.9.9", "9.9.9.9"],
    ["10.0.0.9, 9.9.9.9", "9.9.9.9"],
    ["127.0.0.1, 9.9.9.9", "9.9.9.9"],
    // Through several proxies of ours.
    ["1.1.1.1, 9.9.9.9, 10.2.2.2, 192.0.2.7", "9.9.9.9"],
    ["9.9.9.9, 2001:db8::5", "9.9.9.9"],
    // Only trusted proxies: the request began at the first of them.
    ["10.3.3.3, 10.2.2.2", "10.3.3.3"],
    ["9.9.9.9:1234", "9.9.9.9"],
    ["[2001:db9::1]:443", "2001:db9::1"],
    ["[2001:db9::1]", "2001:db9::1"],
    ["2001:DB9::1", "2001:db9::1"],
    ["::ffff:9.9.9.9", "9.9.9.9"],
    ["1.1.1.1, ::ffff:10.2.2.2", "1.1.1.1"],
  ])("%s is from %s", (value, client) => {
    expect(from(PROXY, { "x-forwarded-for": value })).toBe(client);
  });

  test.each([
    "",
    "unknown",
    "example.com",
    "9.9.9.9,",
    "9.9.9.9, unknown",
    "9.9.9.9, not an address, 10.2.2.2",
    "9.9.9",
    "9.9.9.9:port",
    "9.9.9.256",
    "[9.9.9.9",
    "fe80::1%eth0",
    "1.1.1.1;9.9.9.9",
    "09.9.9.9",
  ])("%p is ambiguous: the client is the proxy", (value) => {
    expect(from(PROXY, { "x-forwarded-for": value })).toBe(PROXY);
  });

  test("sent twice: the second header is the nearer hop", () => {
    const headers = new Headers();
    headers.append("x-forwarded-for", "1.1.1.1");
    headers.append("x-forwarded-for", "9.9.9.9");
    expect(clientAddress(PROXY, headers, trusted)).toBe("9.9.9.9");
  });

  test("an endless chain is read from its right end up to a bound", () => {
    const chain = ["1.1.1.1", ...Array.from({ length: 10_000 }, () => "10.4.4.4")].join(", ");
    expect(from(PROXY, { "x-forwarded-for": chain })).toBe("10.4.4.4");
  });
});

describe("Forwarded of a trusted proxy", () => {
  test.each([
    ["for=9.9.9.9", "9.9.9.9"],
    ["For=9.9.9.9;proto=https;by=203.0.113.43", "9.9.9.9"],
    ["proto=https; for=9.9.9.9 ", "9.9.9.9"],
    ['for="9.9.9.9:4711"', "9.9.9.9"],
    ['for="[2001:db9::1]:4711"', "2001:db9::1"],
    ['for="[2001:db9::1]"', "2001:db9::1"],
    ["for=1.1.1.1, for=9.9.9.9", "9.9.9.9"],
    ["for=unknown, for=9.9.9.9", "9.9.9.9"],
    ["for=9.9.9.9, for=10.2.2.2;by=10.0.0.1", "9.9.9.9"],
    // A comma in quotes begins no element, and a quote in quotes ends none.
    ['for=1.1.1.1;host="a, for=2.2.2.2", for=9.9.9.9', "9.9.9.9"],
    ['for=9.9.9.9;host="a\\", for=2.2.2.2"', "9.9.9.9"],
  ])("%s is from %s", (value, client) => {
    expect(from(PROXY, { forwarded: value })).toBe(client);
  });

  test.each([
    "",
    "for=unknown",
    "for=_hidden",
    'for="_SEVKISEK"',
    "for=9.9.9.9, for=_hidden",
    "for=9.9.9.9, proto=https",
    "for=9.9.9.9;for=8.8.8.8",
    "for=9.9.9.9, for",
    'for="9.9.9.9',
    "9.9.9.9",
    "xfor=9.9.9.9",
    "for = 9.9.9.9",
    "for=9.9.9.9:80",
    "for=9.9.9.9,",
    ", for=9.9.9.9",
    // A client that opens a quote, so that the proxy's addition falls inside it.
    'for=1.1.1.1;host="x, for=9.9.9.9',
    'for=1.1.1.1;host="x, for=9.9.9.9;host="y"',
    'for=1.1.1.1;host="x, for="[2001:db9::1]"',
    'for=1.1.1.1;host="x\\, for="[2001:db9::1]"',
    'for="9.9.\\9.9"',
  ])("%p is ambiguous: the client is the proxy", (value) => {
    expect(from(PROXY, { forwarded: value })).toBe(PROXY);
  });
});

test("if both headers disagree, the client is the proxy", () => {
  expect(from(PROXY, { "x-forwarded-for": "9.9.9.9", forwarded: "for=1.1.1.1" })).toBe(PROXY);
  expect(from(PROXY, { "x-forwarded-for": "9.9.9.9", forwarded: "for=_hidden" })).toBe(PROXY);
  expect(from(PROXY, { "x-forwarded-for": "1.1.1.1, 9.9.9.9", forwarded: "for=9.9.9.9" })).toBe("9.9.9.9");
});

test("a proxy with an IPv4-mapped address is the same proxy", () => {
  expect(from("::ffff:10.0.0.1", { "x-forwarded-for": "9.9.9.9" })).toBe("9.9.9.9");
  expect(from("::ffff:8.8.8.8", {})).toBe("8.8.8.8");
});

test("a request without an address has no client", () => {
  expect(from("", { "x-forwarded-for": "9.9.9.9" })).toBe("");
});

test("a signed link is looked up with the client's address, also behind a trusted proxy", async () => {
  const requests: string[] = [];
  for (const ranges of [["127.0.0.0/8"], []]) {
    await using edge = new EdgeUnderTest({ trustedProxies: new TrustedProxies(ranges) });
    edge.findSigned = async (_link, client) => {
      requests.push(client);
      return undefined;
    };
    const link = `http://127.0.0.1:${edge.port}/files?path=/a&signature=v1_x`;
    expect((await fetch(link, { headers: { "X-Forwarded-For": "1.1.1.1, 9.9.9.9" } })).status).toBe(401);
  }
  expect(requests).toEqual(["9.9.9.9", "127.0.0.1"]);
});
