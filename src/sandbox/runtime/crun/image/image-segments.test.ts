import { expect, test } from "bun:test";
import { folderOfFile } from "../../../../base/testing/test-folder.ts";
import { image, nested, number } from "../testing/criu-image.ts";
import { removedSegments } from "./image-segments.ts";

const folder = folderOfFile("segments");

/** A segment as CRIU writes it: the fields of every System V object, and its size. */
function segment(id: number, mode: number): Buffer {
  const object = [1, 2, 3, 4, 5].map((field) => number(field, 0));
  return Buffer.concat([nested(1, ...object, number(6, mode), number(7, id)), number(2, 4096)]);
}

test("segments removed while attached are found by their mode", () => {
  expect(removedSegments(folder)).toEqual([]);
  image(folder, "ipcns-shm-11.img", [segment(0, 0o1600), segment(1, 0o600), segment(32_769, 0o1666)]);
  image(folder, "ipcns-sem-11.img", [segment(9, 0o1600)]);
  expect(removedSegments(folder)).toEqual([0, 32_769]);
});
