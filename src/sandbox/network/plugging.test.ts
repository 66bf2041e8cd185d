import { expect, test } from "bun:test";
import { shaping } from "./plugging.ts";

test.each([
  [1, "rate 1mbit burst 262144 "],
  [100, "rate 100mbit burst 262144 "],
  [10_000, "rate 10000mbit burst 25000000 "],
])("the burst at %i Mbit/s covers one tick of the clock", (mbit, expected) => {
  expect(shaping("eth0", mbit).join(" ")).toBe(`tc qdisc replace dev eth0 root tbf ${expected}latency 50ms`);
});
