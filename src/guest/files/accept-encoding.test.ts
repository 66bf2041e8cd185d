import { expect, test } from "bun:test";
import { acceptsIdentity, chooseEncoding } from "./accept-encoding.ts";

test.each([
  [null, "identity"],
  ["", "identity"],
  ["gzip", "gzip"],
  ["gzip, deflate", "gzip"],
  ["deflate, br", "identity"],
  ["identity", "identity"],
  ["identity, gzip", "identity"],
  ["identity;q=0.5, gzip;q=0.9", "gzip"],
  ["gzip;q=0.2, identity;q=0.8", "identity"],
  ["gzip;q=0", "identity"],
  ["*", "identity"],
  ["*;q=0.5, gzip;q=0.1", "identity"],
  ["*, identity;q=0", "gzip"],
  ["GZIP;Q=1", "gzip"],
  ["identity;q=0", undefined],
  ["*;q=0", undefined],
  ["*;q=0, gzip", "gzip"],
  ["gzip;q=0, identity;q=0, br", undefined],
] as const)("Accept-Encoding %j gives %j", (header, encoding) => {
  expect(chooseEncoding(header)).toBe(encoding);
});

test("a range is refused only to clients that refuse plain bytes", () => {
  expect(acceptsIdentity("gzip")).toBe(true);
  expect(acceptsIdentity("*;q=0, identity")).toBe(true);
  expect(acceptsIdentity("gzip, identity;q=0")).toBe(false);
  expect(acceptsIdentity("gzip, *;q=0")).toBe(false);
});
