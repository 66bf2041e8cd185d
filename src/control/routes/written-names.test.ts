/** Parsers of user input: addresses, ranges, host names and image names. */
import { expect } from "bun:test";
import { BlockList, isIPv4, isIPv6 } from "node:net";
import { fuzzText, orRefused } from "../../base/testing/fuzz.ts";
import { DomainPatterns, domainPattern } from "../../contract/domain-pattern.ts";
import { fullImageName, parseImageName } from "../../contract/image-name.ts";
import { Ipv4Ranges, ipv4Range, isIpv6Range } from "../../contract/ip-range.ts";
import { allowProblem, denyProblem } from "../../contract/management/egress-entry.ts";
import { proxyAddressProblem, readProxyAddress } from "../../contract/management/proxy-address.ts";

const RANGES = [
  "1.2.3.4",
  "10.0.0.0/8",
  "0.0.0.0/0",
  "192.168.255.255/31",
  "2001:db8::/32",
  "::ffff:1.2.3.4",
  "::/0",
  "1:2:3:4:5:6:7:8",
  "fe80::1%eth0",
  "1::2:3.4.5.6",
];
const NAMES = ["example.com", "*.example.com", "*", "a-b.c_d.example.", "xn--bcher-kva.example", "1.2.3.4", "a.0x7f"];

fuzzText("an accepted IPv4 range is valid for the kernel, too", {
  seeds: RANGES,
  check(text, random) {
    const range = ipv4Range(text);
    expect(ipv4Range(range ?? "1.1.1.1/32")).toBe(range ?? "1.1.1.1/32");
    if (range === undefined) return;
    const [address = "", prefix = ""] = range.split("/");
    expect([isIPv4(address), isIPv4(text.split("/")[0] ?? "")]).toEqual([true, true]);
    const reference = new BlockList();
    reference.addSubnet(address, Number(prefix), "ipv4");
    const ranges = new Ipv4Ranges([text]);
    for (let tries = 0; tries < 4; tries++) {
      const other = Array.from({ length: 4 }, (_, at) =>
        random.below(2) === 0 ? address.split(".")[at] : random.below(256),
      ).join(".");
      expect([other, ranges.has(other)]).toEqual([other, reference.check(other, "ipv4")]);
    }
  },
});

fuzzText("an accepted IPv6 range is valid for the kernel, too", {
  seeds: RANGES,
  check(text) {
    const [address = "", prefix = "128"] = text.split("/");
    if (!text.includes("/")) expect([text, isIpv6Range(text)]).toEqual([text, isIPv6(text) && !text.includes("%")]);
    if (!isIpv6Range(text)) return;
    expect([text, isIPv6(address)]).toEqual([text, true]);
    new BlockList().addSubnet(address, Number(prefix), "ipv6");
  },
});

fuzzText("a name pattern is plain text, and matches names only", {
  seeds: NAMES,
  check(text) {
    const pattern = domainPattern(text);
    const everything = new DomainPatterns(["*"]);
    if (everything.match(text)) expect(text).toMatch(/^[A-Za-z0-9_.-]{1,254}$/);
    if (pattern === undefined) return;
    expect(pattern).toMatch(/^(?:\*|(?:\*\.)?[a-z0-9_.-]{1,253})$/);
    expect(domainPattern(pattern)).toBe(pattern);
    expect(isIPv4(pattern)).toBe(false);
    // A pattern without a wildcard matches itself, and no name above it.
    if (!pattern.startsWith("*")) expect(new DomainPatterns([pattern]).match(text)).toBe(true);
    const parent = pattern.replace(/^\*\./, "");
    if (pattern.startsWith("*.")) expect(new DomainPatterns([pattern]).match(parent)).toBe(false);
  },
});

fuzzText("a list entry is accepted, or rejected with the reason", {
  seeds: [...RANGES, ...NAMES],
  check(text) {
    const taken = allowProblem(text) === undefined;
    const isRange = ipv4Range(text) !== undefined || isIpv6Range(text);
    if (taken) expect(isRange || domainPattern(text) !== undefined).toBe(true);
    if (denyProblem(text) === undefined) expect(isRange).toBe(true);
  },
});

fuzzText("a proxy address is a name or an address, and a port", {
  seeds: ["proxy.example.com:1080", "1.2.3.4:65535", "proxy:1", "user:pass@proxy:1080"],
  check(text) {
    const read = readProxyAddress(text);
    if (read === undefined) expect(proxyAddressProblem(text)).toBeString();
    if (read === undefined) return;
    expect(`${read.host}:${read.port}`).toBe(text.toLowerCase().replace(/\.:/, ":"));
    expect(isIPv4(read.host) || new DomainPatterns(["*"]).match(read.host)).toBe(true);
  },
});

fuzzText("an image name parses like its full form, or is rejected", {
  seeds: [
    "debian",
    "debian:13",
    "ghcr.io/a/b:c",
    "registry.example:5000/x/y_z@sha256:".padEnd(100, "a"),
    "localhost/x",
  ],
  check(text) {
    const name = orRefused(() => parseImageName(text));
    if (name === undefined) return;
    const full = fullImageName(name);
    expect(fullImageName(parseImageName(full))).toBe(full);
    // It becomes an argument of tools, and part of addresses.
    expect(full).toMatch(/^[a-z0-9.-]+(?::\d+)?\/[a-z0-9._/-]+(?::[A-Za-z0-9_.-]+|@sha256:[0-9a-f]{64})$/);
    expect(`${name.registry}/${name.repository}`).not.toContain("..");
  },
});
