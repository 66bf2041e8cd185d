import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { passingSegments } from "./image-segments.ts";
import { encodeField, LENGTH_BYTES, MAGIC_BYTES } from "./protobuf-fields.ts";

const folder = mkdtempSync(join(tmpdir(), "sandlot-segments-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A segment as CRIU writes it: the fields of every System V object, and its size. */
function segment(id: number, mode: number): Buffer {
  const object = [1, 2, 3, 4, 5].map((number) => encodeField(number, 0));
  const message = Buffer.concat([
    encodeField(1, Buffer.concat([...object, encodeField(6, mode), encodeField(7, id)])),
    encodeField(2, 4096),
  ]);
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(message.length);
  return Buffer.concat([length, message]);
}

test("segments that were removed while they were attached are found by their mode", () => {
  expect(passingSegments(folder)).toEqual([]);
  const segments = [segment(0, 0o1600), segment(1, 0o600), segment(32_769, 0o1666)];
  writeFileSync(join(folder, "ipcns-shm-11.img"), Buffer.concat([Buffer.alloc(MAGIC_BYTES), ...segments]));
  writeFileSync(join(folder, "ipcns-sem-11.img"), Buffer.concat([Buffer.alloc(MAGIC_BYTES), segment(9, 0o1600)]));
  expect(passingSegments(folder)).toEqual([0, 32_769]);
});
