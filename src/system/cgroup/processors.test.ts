import { expect, test } from "bun:test";
import { Processors, parseList } from "./processors.ts";

test("sandboxes smaller than the machine get their number of processors in rotation", () => {
  const processors = new Processors([0, 1, 2, 5]);
  expect([processors.take(2), processors.take(1), processors.take(2)]).toEqual(["0,1", "2", "5,0"]);
});

test("a sandbox as large as the machine gets all processors", () => {
  const processors = new Processors([0, 1]);
  expect([processors.take(2), processors.take(8)]).toEqual([undefined, undefined]);
});

test("the kernel's processor lists are parsed", () => {
  expect([parseList("0-3,5\n"), parseList("0\n"), parseList("\n")]).toEqual([[0, 1, 2, 3, 5], [0], []]);
});
