import { expect, test } from "bun:test";
import { SEED } from "../../base/testing/seed.ts";
import { Seeded } from "../testing/seeded.ts";
import { addressesIn, addressQuestion } from "./address-question.ts";

const ID = 4711;
const A = 1;
const CNAME = 5;

type Entry = [owner: string, type: number, value: string, ttlSeconds?: number];

interface AnswerParts {
  id?: number;
  flags?: number;
  asked?: string;
}

function wire(name: string): Buffer {
  return Buffer.concat([
    ...name.split(".").map((label) => Buffer.from([label.length, ...Buffer.from(label)])),
    Buffer.from([0]),
  ]);
}

function answer(records: readonly Entry[], { id = ID, flags = 0x8180, asked = "a.test" }: AnswerParts = {}): Buffer {
  const header = Buffer.alloc(12);
  [id, flags, 1, records.length].forEach((value, at) => void header.writeUInt16BE(value, at * 2));
  const entries = records.map(([owner, type, value, ttlSeconds = 60]) => {
    const content = type === A ? Buffer.from(value.split(".").map(Number)) : wire(value);
    return Buffer.concat([wire(owner), Buffer.from([0, type, 0, 1, 0, 0, 0, ttlSeconds, 0, content.length]), content]);
  });
  return Buffer.concat([header, wire(asked), Buffer.from([0, A, 0, 1]), ...entries]);
}

test("a query is valid DNS", () => {
  const question = addressQuestion(ID, "a.test");
  expect(question.subarray(0, 12).toString("hex")).toBe("126701000001000000000001");
  expect(question.subarray(12, 24).toString("hex")).toBe("016104746573740000010001");
});

const ANSWERS: [string, Buffer, unknown][] = [
  [
    "its addresses",
    answer([
      ["a.test", A, "1.2.3.4"],
      ["A.TEST", A, "1.2.3.5", 9],
    ]),
    { addresses: ["1.2.3.4", "1.2.3.5"], ttlSeconds: 9 },
  ],
  [
    "of its alias",
    answer([
      ["a.test", CNAME, "b.test", 5],
      ["b.test", A, "1.2.3.4"],
    ]),
    { addresses: ["1.2.3.4"], ttlSeconds: 5 },
  ],
  ["not of another name", answer([["b.test", A, "1.2.3.4"]]), { addresses: [], ttlSeconds: 0 }],
  ["an alias loop", answer([["a.test", CNAME, "a.test"]]), { addresses: [], ttlSeconds: 0 }],
  ["none", answer([], { flags: 0x8183 }), { addresses: [], ttlSeconds: 0 }],
  ["refused", answer([["a.test", A, "1.2.3.4"]], { flags: 0x8185 }), { addresses: [], ttlSeconds: 0 }],
  [
    "the part that fitted",
    answer([["a.test", A, "1.2.3.4"]], { flags: 0x8380 }),
    { addresses: ["1.2.3.4"], ttlSeconds: 60 },
  ],
  ["nothing that fitted", answer([], { flags: 0x8380 }), undefined],
  ["to another question", answer([["a.test", A, "1.2.3.4"]], { asked: "b.test" }), undefined],
  ["under another id", answer([["a.test", A, "1.2.3.4"]], { id: 1 }), undefined],
  ["that is a question", answer([], { flags: 0x0100 }), undefined],
  ["of a few bytes", Buffer.alloc(5), undefined],
];

test.each(ANSWERS)("a reply is parsed: %s", (_, message, found) => {
  expect(addressesIn(message, ID, "a.test")).toEqual(found as never);
});

test("a name with a pointer loop is rejected", () => {
  const message = answer([]);
  message.writeUInt16BE(1, 6);
  const pointing = Buffer.concat([message, Buffer.from([0xc0, message.length])]);
  expect(addressesIn(pointing, ID, "a.test")).toEqual({ addresses: [], ttlSeconds: 0 });
});

test("any damaged reply is parsed or ignored", () => {
  const chance = new Seeded(SEED + 9);
  for (let round = 0; round < 5000; round++) {
    const [, message] = ANSWERS[chance.below(6)] as [string, Buffer, unknown];
    const found = addressesIn(chance.mutated(message), ID, "a.test");
    expect(found === undefined || found.addresses.length < 8).toBe(true);
  }
});
