import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfTest } from "../../../../base/testing/test-folder.ts";
import { image as imageIn, nested, number } from "../testing/criu-image.ts";
import { openFilesIn, withSizes } from "./image-open-files.ts";
import { fieldsOf } from "./protobuf-fields.ts";

const images = folderOfTest("open-files");

const image = (name: string, messages: Buffer[]) => imageIn(images, name, messages);

/** As CRIU writes a regular file: with its flags, its position, its owner, its mount and its mode around the rest. */
function file(id: number, path: string, size?: number): Buffer {
  const around = [number(1, id), number(2, 131_074), number(3, 6), nested(5, number(1, 0))];
  const rest = [nested(6, Buffer.from(path)), number(7, 284), ...(size === undefined ? [] : [number(8, size)])];
  return Buffer.concat([number(1, 1), number(2, id), nested(3, ...around, ...rest, number(10, 33_188))]);
}

const pipe = (id: number) => Buffer.concat([number(1, 3), number(2, id), nested(10, number(1, id))]);
const open = (...folders: string[]) => openFilesIn(images, folders);

test("open files and folders below a mount are found, with the size that CRIU checks", () => {
  image("files.img", [
    file(1, "/bin/sh", 9),
    pipe(2),
    file(3, "/data/a", 3_000_000_000),
    file(4, "/data"),
    file(5, "/database", 1),
  ]);
  expect(open("/data")).toEqual([
    { path: "/data/a", shownPath: "/data/a", bytes: 3_000_000_000 },
    { path: "/data", shownPath: "/data", bytes: undefined },
  ]);
  expect(open("/other")).toEqual([]);
});

test("an unnamed file is stored in the image; a linked-aside one is reported by its former name", () => {
  image("files.img", [file(1, "/data/ghost", 1), file(2, "/data/linked", 2), file(3, "/data/link_remap.1", 2)]);
  image("remap-fpath.img", [Buffer.concat([number(1, 1), number(2, 9)]), Buffer.concat([number(1, 2), number(2, 3)])]);
  expect(open("/data")).toEqual([{ path: "/data/link_remap.1", shownPath: "/data/linked", bytes: 2 }]);
});

test("only sizes are replaced", () => {
  image("files.img", [file(1, "/data/a", 6), pipe(2), file(3, "/data/b", 6)]);
  const before = readFileSync(join(images, "files.img"));
  expect(withSizes(before, new Map()).equals(before)).toBe(true);
  writeFileSync(join(images, "files.img"), withSizes(before, new Map([["/data/a", 70_000]])));
  expect(open("/data").map(({ bytes }) => bytes)).toEqual([70_000, 6]);
  writeFileSync(
    join(images, "files.img"),
    withSizes(readFileSync(join(images, "files.img")), new Map([["/data/a", 6]])),
  );
  expect(readFileSync(join(images, "files.img")).equals(before)).toBe(true);
});

test("a truncated message is an error", () => {
  expect(() => fieldsOf(Buffer.from([0x80]))).toThrow();
  expect(() => fieldsOf(Buffer.from([0x07]))).toThrow();
});
