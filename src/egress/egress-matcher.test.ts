import { expect, test } from "bun:test";
import { EgressMatcher } from "./egress-matcher.ts";

const none = { allowRanges: [], allowNames: [], denyRanges: [], proxy: null };

test("allow overrides deny, and an address in neither list passes", () => {
  const matcher = new EgressMatcher({ ...none, allowRanges: ["8.8.8.0/24"], denyRanges: ["8.0.0.0/8"] });
  expect(["8.8.8.8", "8.8.9.8", "9.9.9.9"].map((address) => matcher.allowsAddress(address))).toEqual([
    true,
    false,
    true,
  ]);
  expect(matcher.allowsName("a.test")).toBe(false);
});

test("with everything denied in any notation, only allowed names resolve", () => {
  const denyRanges = ["0.0.0.0/1", "128.0.0.0/1"];
  const names = new EgressMatcher({ ...none, allowNames: ["*.a.test"], denyRanges });
  expect(["b.a.test", "a.test", "c.test"].map((name) => names.mayResolve(name))).toEqual([true, false, false]);
  expect(new EgressMatcher({ ...none, allowRanges: ["1.1.1.1/32"], denyRanges }).mayResolve("a.test")).toBe(false);
  expect(new EgressMatcher({ ...none, denyRanges: ["0.0.0.0/1"] }).mayResolve("a.test")).toBe(true);
});
