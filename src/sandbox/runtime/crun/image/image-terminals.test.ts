/** How much unread terminal data a restore puts back. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfTest } from "../../../../base/testing/test-folder.ts";
import { image, nested, number } from "../testing/criu-image.ts";
import { TERMINAL_WRITE_MAX_BYTES, TERMINALS_IMAGE, terminalsThatFit } from "./image-terminals.ts";
import { messagesIn } from "./protobuf-fields.ts";

const images = folderOfTest("terminals");

const text = Buffer.from("a line\r\n".repeat(2048));
const terminal = (id: number, bytes: number) => Buffer.concat([number(1, id), nested(2, text.subarray(0, bytes))]);

test("the beginning is put back, if there is more than a terminal accepts", () => {
  image(images, TERMINALS_IMAGE, [terminal(1, 7), terminal(2, text.length), terminal(3, TERMINAL_WRITE_MAX_BYTES)]);
  const expected = [terminal(1, 7), terminal(2, TERMINAL_WRITE_MAX_BYTES), terminal(3, TERMINAL_WRITE_MAX_BYTES)];
  expect(messagesIn(terminalsThatFit(images) ?? Buffer.alloc(0))).toEqual(expected);
});

test("all of it is put back, if it fits", () => {
  image(images, TERMINALS_IMAGE, [terminal(1, 7), terminal(2, TERMINAL_WRITE_MAX_BYTES)]);
  expect(terminalsThatFit(images)).toBeUndefined();
});

test("nothing is put back, if there is none", () => {
  expect(terminalsThatFit(images)).toBeUndefined();
  writeFileSync(join(images, TERMINALS_IMAGE), "magicnum");
  expect(terminalsThatFit(images)).toBeUndefined();
});
