/** Fuzzes forbidden webhook addresses in all spellings. */
import { expect, test } from "bun:test";
import { isIP } from "node:net";
import { fuzzText, orRefused, SeededRandom } from "../../base/testing/fuzz.ts";
import { SEED } from "../../base/testing/seed.ts";
import { CLOSED_IPV4 } from "../../contract/closed-ranges.ts";
import { bareHost, checkedUrl, isInside } from "./webhook-address.ts";

const nobody = { check: () => false };
const hex = (number: number) => number.toString(16);

/** The ways to write an IPv4 address into one of IPv6 that a kernel, a gateway or a relay would follow. */
function formsOf(bytes: readonly number[]): string[] {
  const [a = 0, b = 0, c = 0, d = 0] = bytes;
  const pair = `${hex(a * 256 + b)}:${hex(c * 256 + d)}`;
  const dotted = bytes.join(".");
  return [
    `::ffff:${dotted}`,
    `::FFFF:${pair}`,
    `0:0:0:0:0:ffff:${pair}`,
    `0000::ffff:${dotted}`,
    `::${dotted}`,
    `::ffff:0:${dotted}`,
    `64:ff9b::${dotted}`,
    `64:ff9b:1::${pair}`,
    `2002:${pair}::1`,
    `2001:0:${pair}::`,
  ];
}

test(`no spelling of a private address passes as public (SANDLOT_TEST_SEED=${SEED})`, () => {
  const random = new SeededRandom(SEED);
  const outside: string[] = [];
  for (const { range } of CLOSED_IPV4) {
    const [first = "", prefix = "32"] = range.split("/");
    for (let tries = 0; tries < 40; tries++) {
      const bytes = first.split(".").map((byte, at) => {
        const free = Math.max(0, Math.min(8, 8 * (at + 1) - Number(prefix)));
        return Number(byte) + random.below(2 ** free);
      });
      outside.push(...[bytes.join("."), ...formsOf(bytes)].filter((form) => !isInside(form, nobody)));
    }
  }
  expect(outside).toEqual([]);
});

fuzzText("a webhook URL has a public address, or is rejected", {
  seeds: [
    "https://receiver.example/hook?x=1",
    "http://127.0.0.1:80/",
    "http://[::ffff:7f00:1]/",
    "http://0x7f.1/",
    "http://2130706433/",
    "http://017700000001/",
    "http://user:pass@receiver.example/",
    "http://169.254.169.254.nip.io/",
    "http://１２７.0.0.1/",
    "http://[fe80::1%25eth0]/",
  ],
  check(text) {
    const url = orRefused(() => checkedUrl(text, false));
    if (url === undefined) return;
    const host = bareHost(url);
    expect([url.username, url.password]).toEqual(["", ""]);
    // A name is resolved and judged when the message is sent.
    if (isIP(host) > 0) expect([host, isInside(host)]).toEqual([host, false]);
  },
});
