/** The DNS relay passes on what the resolver said to who asked, and nothing else. */
import { expect, test } from "bun:test";
import { firstNameserver, questionOf } from "../../../src/host/relay/dns-relay.ts";
import { Tally } from "../../../src/work/tally.ts";

/** A message with one question for `name`. */
function message(id: number, name: string, extra = ""): Buffer {
  const header = Buffer.alloc(12);
  header.writeUInt16BE(id, 0);
  header.writeUInt16BE(1, 4);
  const labels = name.split(".").map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]));
  return Buffer.concat([header, ...labels, Buffer.from([0, 0, 1, 0, 1]), Buffer.from(extra)]);
}

test("a question is told apart by its name, type and class, whatever the id and whatever follows", () => {
  const asked = questionOf(message(1, "outside.test"));
  expect(questionOf(message(2, "outside.test", "an answer"))?.equals(asked ?? Buffer.alloc(0))).toBe(true);
  expect(questionOf(message(1, "outsidf.test"))?.equals(asked ?? Buffer.alloc(0))).toBe(false);
});

test.each([
  ["too short", Buffer.alloc(11)],
  ["no question", Buffer.alloc(40)],
  ["a name that goes past the end", Buffer.concat([message(1, "a").subarray(0, 12), Buffer.from([50, 1, 2])])],
  [
    "a pointer instead of a name",
    Buffer.concat([message(1, "a").subarray(0, 12), Buffer.from([0xc0, 12, 0, 1, 0, 1])]),
  ],
  ["cut off after the name", message(1, "a").subarray(0, 15)],
])("what is no question is passed over: %s", (_, bytes) => {
  expect(questionOf(bytes)).toBeUndefined();
});

test("the first name server of the machine is asked", () => {
  expect(firstNameserver("# x\nsearch lan\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n")).toBe("10.0.0.1");
  expect(firstNameserver("nameserver fd00::1\n")).toBe("fd00::1");
  expect(firstNameserver("")).toBeUndefined();
});

test("each has its own share, and gets a place back when one is done", () => {
  const tally = new Tally(2);
  expect([tally.add("a"), tally.add("a"), tally.add("a"), tally.add("b")]).toEqual([true, true, false, true]);
  tally.remove("a");
  expect([tally.add("a"), tally.add("a")]).toEqual([true, false]);
});
