import { describe, expect, test } from "bun:test";
import { SeededRandom } from "../base/testing/fuzz.ts";
import { SEED } from "../base/testing/seed.ts";
import { bareQuery, type DnsQuestion, questionOf, REFUSAL, readQuery, refusalOf } from "./dns-message.ts";
import { EgressMatcher } from "./egress-matcher.ts";
import { answerHead, dnsQuery, words } from "./testing/dns-query.ts";

const FUZZED = 20_000;

function read(message: Buffer): DnsQuestion {
  const question = readQuery(message);
  if (typeof question !== "object") throw new Error(`no question: ${question}`);
  return question;
}

test("a question is identified by its name, type and class, not by its id and records", () => {
  const request = questionOf(dnsQuery("outside.test"));
  const same = dnsQuery("outside.test", { id: 2, extra: Buffer.from("an answer") });
  expect(questionOf(same)?.equals(request ?? Buffer.alloc(0))).toBe(true);
  expect(questionOf(dnsQuery("outsidf.test"))?.equals(request ?? Buffer.alloc(0))).toBe(false);
});

test.each([
  ["too short", Buffer.alloc(11)],
  ["no question", Buffer.alloc(40)],
  ["a name that goes past the end", Buffer.concat([dnsQuery("a").subarray(0, 12), Buffer.from([50, 1, 2])])],
  ["a pointer instead of a name", Buffer.concat([dnsQuery("a").subarray(0, 12), Buffer.from([0xc0, 12, 0, 1, 0, 1])])],
  ["cut off after the name", dnsQuery("a").subarray(0, 15)],
])("an invalid question is ignored: %s", (_, bytes) => {
  expect(questionOf(bytes)).toBeUndefined();
});

describe("in a query of a sandbox", () => {
  test.each([
    ["a name", "allowed.test", "allowed.test"],
    ["letters of either case", "AlLoWeD.tEsT", "allowed.test"],
    ["an underscore", "_dmarc.allowed.test", "_dmarc.allowed.test"],
    ["the root", [], ""],
    ["a dot in a label", ["evil.wild", "test"], ""],
    ["a dot at the end of a label", ["allowed", "test."], ""],
    ["a NUL behind a name", ["allowed", "test\0"], ""],
    ["a label of a space", ["allowed", " ", "test"], ""],
    ["bytes that are no ASCII", ["allow\xe9d", "test"], ""],
  ])("the name is %s", (_, name, expected) => {
    expect(read(dnsQuery(name)).name).toBe(expected);
  });

  test.each([
    ["an answer", dnsQuery("a.test", { flags: 0x8180 }), undefined],
    ["a fragment", dnsQuery("a.test").subarray(0, 11), undefined],
    ["an update", dnsQuery("a.test", { flags: 5 << 11 }), REFUSAL.unknownOperation],
    ["a notification", dnsQuery("a.test", { flags: 4 << 11 }), REFUSAL.unknownOperation],
    ["no question", dnsQuery("a.test", { questions: 0 }), REFUSAL.malformed],
    ["two questions", dnsQuery("a.test", { questions: 2, extra: dnsQuery("b.test").subarray(12) }), REFUSAL.malformed],
    ["a label that is too long", dnsQuery(["a".repeat(64), "test"]), REFUSAL.malformed],
    ["a name that is too long", dnsQuery(Array.from({ length: 5 }, () => "a".repeat(63))), REFUSAL.malformed],
    ["a name without an end", dnsQuery(Array.from({ length: 500 }, () => "a")), REFUSAL.malformed],
    [
      "a pointer in a name",
      Buffer.concat([words(1, 0x100, 1, 0, 0, 0), Buffer.from("\x01a\xc0\x0c", "latin1"), words(1, 1)]),
      REFUSAL.malformed,
    ],
    ["a whole zone", dnsQuery("a.test", { type: 252 }), REFUSAL.refused],
    ["an incremental zone transfer", dnsQuery("a.test", { type: 251 }), REFUSAL.refused],
  ])("%s is not a question to forward", (_, message, expected) => {
    expect(readQuery(message)).toBe(expected as number);
  });

  test("the longest possible name is read", () => {
    const labels = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)];
    expect(read(dnsQuery(labels)).name).toBe(labels.join("."));
  });

  test("every record type is accepted, and other classes are recognised", () => {
    for (const type of [1, 16, 28, 65, 255]) expect(read(dnsQuery("a.test", { type })).name).toBe("a.test");
    expect(read(dnsQuery("version.bind", { class: 3 })).isInternet).toBe(false);
  });
});

test("a refusal has only the id, the question and the recursion flag of the query", () => {
  const request = dnsQuery("Denied.Test", { id: 0xbeef, counts: [0, 0, 1], extra: Buffer.from("secret") });
  const refusal = refusalOf(request, REFUSAL.refused);
  expect(answerHead(refusal)).toEqual({ id: 0xbeef, code: 5, questions: 1, answers: 0 });
  expect(refusal.readUInt16BE(2) & 0xff80).toBe(0x8180);
  expect(refusal.subarray(12)).toEqual(questionOf(request) ?? Buffer.alloc(0));
  const malformed = refusalOf(dnsQuery("a.test", { questions: 0 }), REFUSAL.malformed);
  expect(answerHead(malformed)).toEqual({ id: 0x1234, code: 1, questions: 0, answers: 0 });
});

test("additional records and options of a query are removed, except the response size", () => {
  const option = Buffer.from("\xff\xfe\x00\x06secret", "latin1");
  const opt = (size: number, flags: number, data: Buffer) =>
    Buffer.concat([Buffer.from([0]), words(41, size, 0, flags, data.length), data]);
  const request = dnsQuery("a.test", { counts: [0, 0, 1], extra: opt(1232, 0x8001, option) });
  const bare = bareQuery(request, read(request));
  expect(bare).toEqual(dnsQuery("a.test", { counts: [0, 0, 1], extra: opt(1232, 0x8000, Buffer.alloc(0)) }));

  const record = Buffer.concat([dnsQuery("b.test").subarray(12), words(0, 60, 6), Buffer.from("secret")]);
  for (const counts of [[1, 0, 0] as const, [0, 1, 0] as const, [0, 0, 1] as const, [0, 0, 2] as const]) {
    const full = dnsQuery("a.test", { flags: 0x0170, counts, extra: record });
    expect(bareQuery(full, read(full))).toEqual(dnsQuery("a.test", { flags: 0x0130 }));
  }
});

/** Damage of every kind to good questions. A name is read independently of the code under test. */
test("no damaged message passes as an allowed name or ends the relay", () => {
  const random = new SeededRandom(SEED);
  const matcher = new EgressMatcher({
    allowRanges: [],
    allowNames: ["allowed.test", "*.wild.test"],
    denyRanges: ["0.0.0.0/0"],
    proxy: null,
  });
  const seeds = ["allowed.test", "x.wild.test", "denied.test", "wild.test"].map((name) => dnsQuery(name));
  let allowed = 0;
  for (let round = 0; round < FUZZED; round++) {
    const message = Buffer.concat([random.pick(seeds), Buffer.alloc(random.below(3) * 8, random.below(256))]);
    for (let damage = random.below(4); damage > 0; damage--) message[random.below(message.length)] = random.below(256);
    const cut = message.subarray(0, random.below(8) === 0 ? random.below(message.length) : message.length);
    const question = readQuery(cut);
    if (question === undefined) continue;
    const reason = typeof question === "number" ? question : REFUSAL.refused;
    expect(answerHead(refusalOf(cut, reason)).code).toBe(reason);
    if (typeof question === "number") continue;
    expect(questionOf(bareQuery(cut, question))?.equals(question.bytes)).toBe(true);
    if (!matcher.mayResolve(question.name)) continue;
    allowed += 1;
    const spelt = question.bytes.subarray(0, -4).toString("latin1").toLowerCase();
    expect(spelt === "\x07allowed\x04test\0" || spelt.endsWith("\x04wild\x04test\0")).toBe(true);
  }
  expect(allowed).toBeGreaterThan(FUZZED / 20);
});
