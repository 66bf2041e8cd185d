import { expect, test } from "bun:test";
import { DomainPatterns, domainPattern } from "./domain-pattern.ts";

test("a name matches itself, *.name matches subdomains, * matches everything", () => {
  const some = new DomainPatterns(["example.com", "*.example.org", "*.a.example.net"]);
  for (const name of ["example.com", "EXAMPLE.com.", "a.example.org", "a.b.example.org", "x.a.example.net"]) {
    expect(some.match(name)).toBe(true);
  }
  for (const name of ["a.example.com", "example.org", "badexample.org", "a.example.net", "example.com.evil.test"]) {
    expect(some.match(name)).toBe(false);
  }
  expect(new DomainPatterns(["*"]).match("any.thing.test")).toBe(true);
  expect(new DomainPatterns([]).match("any.thing.test")).toBe(false);
});

test.each([
  "1.2.3.4",
  "::1",
  "[::1]",
  "",
  ".",
  "a..b",
  "a b",
  "a\0b",
  "2130706433",
  "0x7f000001",
  "1.0x7f",
  "a/b",
  "-a.b",
])("%p is not a name and does not match *", (name) => {
  expect(new DomainPatterns(["*"]).match(name)).toBe(false);
  expect(domainPattern(name)).toBeUndefined();
});

test("a pattern is stored in lower case without the final dot", () => {
  expect(domainPattern("*.Example.COM.")).toBe("*.example.com");
  expect(domainPattern("*")).toBe("*");
  expect(domainPattern("_dmarc.xn--bcher-kva.example")).toBe("_dmarc.xn--bcher-kva.example");
  for (const text of ["*..", "*.*", "a.*.b", "**", "*a.b", "a".repeat(64), `${"a.".repeat(126)}ab`]) {
    expect(domainPattern(text)).toBeUndefined();
  }
});

test("an exact name is closer than the longest wildcard", () => {
  const some = new DomainPatterns(["*", "*.test", "*.a.test", "b.a.test"]);
  const closest = ["B.a.test.", "c.a.test", "a.test", "other.example", "1.2.3.4"].map((name) => some.closest(name));
  expect(closest).toEqual(["b.a.test", "*.a.test", "*.test", "*", undefined]);
});
