import { expect, test } from "bun:test";
import { Ipv4Ranges, ipv4Range, isIpv6Range } from "./ip-range.ts";

test("a range is normalised to its first address, an address to a range of one", () => {
  expect(ipv4Range("10.1.2.3/8")).toBe("10.0.0.0/8");
  expect(ipv4Range("1.2.3.4")).toBe("1.2.3.4/32");
  expect(ipv4Range("255.255.255.255/31")).toBe("255.255.255.254/31");
  expect(ipv4Range("0.0.0.0/0")).toBe("0.0.0.0/0");
});

test.each([
  "1.2.3",
  "1.2.3.4/33",
  "1.2.3.4/",
  "1.2.3.4/+8",
  "1.2.3.4/08",
  "1.2.3.4/8/8",
  "01.2.3.4",
  "1.2.3.256",
  "::1",
  "a.test",
  "",
])("%p is not an IPv4 range", (text) => {
  expect(ipv4Range(text)).toBeUndefined();
});

test("IPv6 addresses and ranges are recognised", () => {
  for (const text of ["::1", "2001:db8::/32", "::/0", "::ffff:1.2.3.4"]) expect(isIpv6Range(text)).toBe(true);
  for (const text of ["1.2.3.4", "::1/129", "fe80::1%eth0", "::1/", "a::b::c"]) expect(isIpv6Range(text)).toBe(false);
});

test("a set of overlapping ranges contains exactly the addresses of its members", () => {
  const ranges = new Ipv4Ranges(["10.0.0.0/8", "10.1.0.0/16", "1.2.3.4/32", "200.0.0.0/7", "1.2.3.6/31"]);
  for (const inside of ["10.0.0.0", "10.255.255.255", "1.2.3.4", "1.2.3.6", "1.2.3.7", "201.255.255.255"]) {
    expect(ranges.has(inside)).toBe(true);
  }
  for (const beside of ["9.255.255.255", "11.0.0.0", "1.2.3.5", "1.2.3.8", "202.0.0.0", "0.0.0.0", "::1", "x"]) {
    expect(ranges.has(beside)).toBe(false);
  }
  expect(ranges.isAll).toBe(false);
});

test("ranges that cover all addresses are recognised", () => {
  expect(new Ipv4Ranges(["128.0.0.0/1", "0.0.0.0/1"]).isAll).toBe(true);
  expect(new Ipv4Ranges(["0.0.0.0/0"]).isAll).toBe(true);
  expect(new Ipv4Ranges(["128.0.0.0/1", "0.0.0.0/2"]).isAll).toBe(false);
  expect(new Ipv4Ranges([]).isAll).toBe(false);
});

test("a set of ranges is merged into separate spans", () => {
  const ranges = new Ipv4Ranges(["10.0.1.0/24", "1.1.1.1/32", "10.0.0.0/24", "10.0.0.7/32"]);
  expect(ranges.spans).toEqual(["1.1.1.1", "10.0.0.0-10.0.1.255"]);
});

test("the difference of two sets of ranges is a list of ranges", () => {
  const left = (ranges: string[], others: string[]) => new Ipv4Ranges(ranges).without(new Ipv4Ranges(others)).cidrs;
  expect(left(["10.0.0.0/8"], [])).toEqual(["10.0.0.0/8"]);
  expect(left(["10.0.0.0/30"], ["10.0.0.1/32"])).toEqual(["10.0.0.0/32", "10.0.0.2/31"]);
  expect(left(["10.0.0.0/24", "10.0.2.0/24"], ["10.0.0.128/25", "10.0.1.0/24", "10.0.2.0/25"])).toEqual([
    "10.0.0.0/25",
    "10.0.2.128/25",
  ]);
  expect(left(["10.0.0.0/24"], ["0.0.0.0/0"])).toEqual([]);
  expect(left(["0.0.0.0/0"], ["0.0.0.0/1"])).toEqual(["128.0.0.0/1"]);
  expect(left(["255.255.255.254/31"], ["255.255.255.254/32"])).toEqual(["255.255.255.255/32"]);
});
