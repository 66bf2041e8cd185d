import { expect, test } from "bun:test";
import { EgressJudge } from "./egress-judge.ts";

const none = { allowRanges: [], allowNames: [], denyRanges: [], proxy: null };

test("allow overrides deny, and an address in neither list passes", () => {
  const judge = new EgressJudge({ ...none, allowRanges: ["8.8.8.0/24"], denyRanges: ["8.0.0.0/8"] });
  expect(["8.8.8.8", "8.8.9.8", "9.9.9.9"].map((address) => judge.allowsAddress(address))).toEqual([true, false, true]);
  expect(judge.allowsName("a.test")).toBe(false);
});

test("with everything denied in any notation, only allowed names resolve", () => {
  const denyRanges = ["0.0.0.0/1", "128.0.0.0/1"];
  const names = new EgressJudge({ ...none, allowNames: ["*.a.test"], denyRanges });
  expect(["b.a.test", "a.test", "c.test"].map((name) => names.mayAsk(name))).toEqual([true, false, false]);
  expect(new EgressJudge({ ...none, allowRanges: ["1.1.1.1/32"], denyRanges }).mayAsk("a.test")).toBe(false);
  expect(new EgressJudge({ ...none, denyRanges: ["0.0.0.0/1"] }).mayAsk("a.test")).toBe(true);
});
