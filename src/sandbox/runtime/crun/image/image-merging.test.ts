import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { dropMergeMarks } from "./image-merging.ts";
import { encodeVarint, fieldsOf, messagesIn, numberIn } from "./protobuf-fields.ts";

const images = mkdtempSync(join(tmpdir(), "sandlot-merging-"));
afterAll(() => rmSync(images, { recursive: true, force: true }));

const integer = (number: number, value: number) => Buffer.concat([encodeVarint(number * 8), encodeVarint(value)]);
const nested = (number: number, content: Buffer) =>
  Buffer.concat([encodeVarint(number * 8 + 2), encodeVarint(content.length), content]);
const mapping = (start: number, advice: number) => nested(14, Buffer.concat([integer(1, start), integer(9, advice)]));

const MERGEABLE = 2 ** 12;
const DONT_FORK = 2 ** 10;
const WIPE_ON_FORK = 2 ** 18;

test("the mark goes from every mapping, and all other advice stays", async () => {
  const advices = [0, MERGEABLE, MERGEABLE + DONT_FORK, DONT_FORK, MERGEABLE + WIPE_ON_FORK, WIPE_ON_FORK];
  const message = Buffer.concat([integer(1, 4096), ...advices.map((advice, at) => mapping(at * 8192, advice))]);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(message.length);
  const path = join(images, "mm-7.img");
  writeFileSync(path, Buffer.concat([Buffer.from("magicnum"), length, message]));
  await dropMergeMarks(images);
  const [left = Buffer.alloc(0)] = messagesIn(readFileSync(path));
  const mappings = fieldsOf(left).flatMap(({ number, bytes }) => (number === 14 && bytes ? [fieldsOf(bytes)] : []));
  const kept = advices.map((advice) => (Math.floor(advice / MERGEABLE) % 2 === 1 ? advice - MERGEABLE : advice));
  expect(mappings.map((fields) => numberIn(fields, 9))).toEqual(kept);
  expect(mappings.map((fields) => numberIn(fields, 1))).toEqual(advices.map((_, at) => at * 8192));
});
