/** Sandboxes take turns on the machine's processors. */
import { expect, test } from "bun:test";
import { Processors, parseList } from "../../../src/system/cgroup/processors.ts";

test("lists are read as the kernel writes them", () => {
  expect(parseList("0-3,5,8-9\n")).toEqual([0, 1, 2, 3, 5, 8, 9]);
  expect(parseList("0\n")).toEqual([0]);
});

test("each gets its number, one after the other around the machine", () => {
  const processors = new Processors([0, 1, 4, 5, 6]);
  expect([processors.take(2), processors.take(2), processors.take(2)]).toEqual(["0,1", "4,5", "6,0"]);
});

test("a sandbox that asks for all processors or more is not bound to any", () => {
  const processors = new Processors([0, 1]);
  expect([processors.take(2), processors.take(8)]).toEqual([undefined, undefined]);
});
