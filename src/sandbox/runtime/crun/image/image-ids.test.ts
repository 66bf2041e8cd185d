import { expect, test } from "bun:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../../../base/testing/test-folder.ts";
import { nested, number } from "../testing/criu-image.ts";
import { idsIn, withIds } from "./image-ids.ts";

const folder = folderOfFile("image-ids");

const line = (inside: number, outside: number, count: number) =>
  Buffer.concat([number(1, inside), number(2, outside), number(3, count)]);

function file(...tables: Buffer[]): Buffer {
  const message = Buffer.concat(tables);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(message.length);
  return Buffer.concat([Buffer.from("MAGICMAG"), length, message]);
}

function imagesWith(content: Buffer, name = "userns-9.img"): string {
  const images = mkdtempSync(join(folder, "images-"));
  writeFileSync(join(images, name), content);
  writeFileSync(join(images, "inventory.img"), "x");
  return images;
}

const whole = (first: number) => file(nested(1, line(0, first, 65_536)), nested(2, line(0, first, 65_536)));

test("the id range of an image is found, and replaced in both tables by one of any length", () => {
  const { first, name, content } = idsIn(imagesWith(whole(1_900_000_000)));
  expect([first, name]).toEqual([1_900_000_000, "userns-9.img"]);
  for (const other of [1_900_065_536, 4_200_000_000, 70_000]) {
    expect(withIds(content, { first: other })).toEqual(whole(other));
  }
});

test.each<[string, Buffer]>([
  ["a part of a range", file(nested(1, line(0, 5, 1000)), nested(2, line(0, 5, 1000)))],
  ["other groups than users", file(nested(1, line(0, 5, 65_536)), nested(2, line(0, 6, 65_536)))],
  ["the machine's root beside the range", file(nested(1, line(0, 5, 65_536)), nested(1, line(65_536, 0, 1)))],
  ["no table", file()],
  ["a table that is cut off", whole(5).subarray(0, 20)],
])("an image with %s is not restored with another range", (_, content) => {
  expect(() => idsIn(imagesWith(content))).toThrow("the user ids of this memory image cannot be read");
});

test("an image without a user namespace is refused", () => {
  expect(() => idsIn(imagesWith(whole(5), "utsns-9.img"))).toThrow("it has no user namespace");
});
