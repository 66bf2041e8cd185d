import { heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import { SEED } from "../../base/testing/seed.ts";
import { extension, hello, helloMessage, records, serverNames } from "../testing/hello.ts";
import { Seeded } from "../testing/seeded.ts";
import { ClientHelloReader } from "./client-hello.ts";

const GREASE = extension(0x0a0a, Buffer.alloc(0));
const ALPN = extension(16, Buffer.from([0, 3, 2, 104, 50]));
const EARLY_DATA = extension(42, Buffer.alloc(0));
const ENCRYPTED_HELLO = extension(0xfe0d, Buffer.alloc(200, 5));

function read(pieces: readonly Buffer[]) {
  const reader = new ClientHelloReader();
  for (const piece of pieces) {
    const result = reader.add(piece);
    if (result !== undefined) return { result, bytes: reader.bytes };
  }
  return { result: undefined, bytes: reader.bytes };
}

function nameIn(bytes: Buffer): string | undefined {
  const { result } = read([bytes]);
  return result === undefined ? "more" : "value" in result ? result.value.name : undefined;
}

test("the offered protocols are read, and a malformed list of them does not hide the name", () => {
  const offered = (...lists: Buffer[]) =>
    read([hello("", { extensions: Buffer.concat([...lists, serverNames("a.test")]) })]).result;
  const both = extension(16, Buffer.from("\0\x0c\x02h2\x08http/1.1", "latin1"));
  expect(offered(both)).toEqual({ value: { name: "a.test", protocols: ["h2", "http/1.1"] } });
  expect(offered()).toEqual({ value: { name: "a.test", protocols: [] } });
  for (const list of ["", "\0", "\0\0", "\0\x03\x05h2", "\0\x03\x02h2x", "\0\x01\0"]) {
    const malformed = extension(16, Buffer.from(list, "latin1"));
    expect(offered(malformed)).toEqual({ value: { name: "a.test", protocols: undefined } });
  }
});

const NAMED: [string, Buffer][] = [
  ["alone", hello("a.test")],
  ["among others", hello("", { extensions: Buffer.concat([GREASE, ALPN, serverNames("a.test"), EARLY_DATA]) })],
  [
    "the outer name of an encrypted hello",
    hello("", { extensions: Buffer.concat([ENCRYPTED_HELLO, serverNames("a.test")]) }),
  ],
  ["in records of one byte", hello("a.test", { recordBytes: 1 })],
  [
    "after 60 KiB of other extensions",
    hello("", { extensions: Buffer.concat([extension(21, Buffer.alloc(60 * 1024)), serverNames("a.test")]) }),
  ],
];

test.each(NAMED)("a name is found: %s", (_, bytes) => {
  expect(nameIn(bytes)).toBe("a.test");
});

test("bytes after the hello are kept", () => {
  const bytes = Buffer.concat([hello("a.test"), Buffer.from([23, 3, 3, 0, 1, 0])]);
  expect(read([bytes]).bytes.equals(bytes)).toBe(true);
});

test("records of one byte are merged", () => {
  const unfinished = helloMessage(extension(21, Buffer.alloc(10_000))).subarray(0, 10_000);
  const reader = new ClientHelloReader();
  Bun.gc(true);
  const before = heapStats().objectCount;
  expect(reader.add(records(unfinished, 1))).toBeUndefined();
  Bun.gc(true);
  expect(heapStats().objectCount - before).toBeLessThan(5_000);
  expect(reader.bytes.length).toBe(60_000);
});

const message = helloMessage(serverNames("a.test"));
const REFUSED: [string, Buffer][] = [
  ["no name", hello("", { extensions: GREASE })],
  ["no extensions at all", records(helloMessage(undefined))],
  ["two names", hello("", { extensions: serverNames("a.test", "b.test") })],
  ["a name of another type first", hello("", { extensions: serverNames([1, "b.test"], "a.test") })],
  ["an empty name", hello("", { extensions: serverNames("") })],
  ["the extension twice", hello("", { extensions: Buffer.concat([serverNames("a.test"), serverNames("b.test")]) })],
  ["another extension twice", hello("", { extensions: Buffer.concat([GREASE, GREASE, serverNames("a.test")]) })],
  ["an extension that reaches over the end", hello("", { extensions: Buffer.from([0, 0, 0, 99, 1]) })],
  ["an empty record", Buffer.concat([Buffer.from([22, 3, 1, 0, 0]), hello("a.test")])],
  ["a record that is too long", Buffer.from([22, 3, 1, 0x40, 1])],
  ["an alert between two records", Buffer.concat([records(message.subarray(0, 9)), Buffer.from([21, 3, 1, 0, 2])])],
  ["another message behind it", records(Buffer.concat([message, Buffer.from([1, 0, 0, 0])]))],
  ["another message before it", records(Buffer.concat([Buffer.from([0, 0, 0, 0]), message]))],
  ["something after its extensions", records(lengthened(message))],
  ["SSL 2", Buffer.from([0x80, 0x2e, 1, 3, 1, 0, 0x15])],
  ["HTTP", Buffer.from("GET / HTTP/1.1\r\n")],
  ["one byte that is not TLS", Buffer.from("G")],
  ["a hello of more than 64 KiB", hello("", { extensions: extension(21, Buffer.alloc(65_000)) })],
  [
    "a hello of which more than 64 KiB are records",
    hello("", { extensions: extension(21, Buffer.alloc(20_000)), recordBytes: 1 }),
  ],
  ["a hello that says so", records(Buffer.from([1, 2, 0, 0]))],
];

/** One byte more, behind all of its parts. */
function lengthened(whole: Buffer): Buffer {
  const longer = Buffer.concat([whole, Buffer.from([0])]);
  longer.writeUInt16BE(whole.length - 4 + 1, 2);
  return longer;
}

test.each(REFUSED)("refused: %s", (_, bytes) => {
  expect(nameIn(bytes)).toBeUndefined();
});

test("the verdict is the same for every split", () => {
  const chance = new Seeded(SEED + 1);
  for (const [, bytes] of [...NAMED, ...REFUSED]) {
    const whole = read([bytes]);
    for (let round = 0; round < 20; round++) expect(read(chance.split(bytes)).result).toEqual(whole.result);
  }
});

test("any damaged hello gets a verdict or needs more bytes, the same in any pieces", () => {
  const chance = new Seeded(SEED + 2);
  for (let round = 0; round < 3000; round++) {
    const [, original] = NAMED[chance.below(4)] as [string, Buffer];
    const bytes = chance.mutated(original);
    expect(read(chance.split(bytes)).result).toEqual(read([bytes]).result);
  }
});
