/** What goes to CRIU and comes from it, held to the bytes that its own library writes. */
import { expect, test } from "bun:test";
import { afterStage, criuAnswer, criuRequest } from "./criu-messages.ts";

const hex = (text: string) => Buffer.from(text.replaceAll(" ", ""), "hex");

test("a request names the folder, and that there is no descriptor of it", () => {
  const minusOne = "08 ffffffffffffffffff01";
  const images = `a204 02 ${Buffer.from("/i").toString("hex")}`;
  expect(criuRequest("restore", { images: "/i", logLevel: 1 })).toEqual(
    hex(`08 02 12 14 ${minusOne} 48 01 60 01 ${images}`),
  );
  expect(criuRequest("dump", { images: "/i", logLevel: 4, pid: 300 })).toEqual(
    hex(`08 01 12 17 ${minusOne} 10 ac02 48 04 60 01 ${images}`),
  );
});

test("what one without a command line is to restore is in its request", () => {
  const text = (words: string) =>
    `${Buffer.from([words.length]).toString("hex")} ${Buffer.from(words).toString("hex")}`;
  const given = { config: "/c", log: "l", root: "/r", cgroup: "/g" };
  const sent = criuRequest("restore", { images: "/i", logLevel: 1, restore: given }).toString("hex");
  const fields = ["40 01 9002 03", `52 ${text("l")} 6a ${text("/r")} ca01 04 12 ${text("/g")}`, `9a03 ${text("/c")}`];
  expect(sent).toContain(fields.join("").replaceAll(" ", ""));
});

test("a request has what a CRIU that was started ahead was not told", () => {
  const work = { workDescriptor: 11, external: ["mnt[/a]:/a", "b"] };
  const told = `8801 0b aa02 0a ${Buffer.from("mnt[/a]:/a").toString("hex")} aa02 01 62`;
  expect(criuRequest("dump", { images: "/i", logLevel: 1, pid: 2, ...work })).toEqual(
    hex(`08 01 12 2a 08 ffffffffffffffffff01 10 02 48 01 60 01 ${told} a204 02 2f69`),
  );
});

test("after a stage it goes on, or fails", () => {
  expect(afterStage(true)).toEqual(hex("08 06 18 01"));
  expect(afterStage(false)).toEqual(hex("08 06 18 00"));
});

test.each([
  ["a stage", "08 06 10 01 2a 09 0a 07 726573756d6564", { stage: "resumed", pid: undefined }],
  ["a stage with the first process", "08 06 10 01 2a 06 0a 01 78 10 ac02", { stage: "x", pid: 300 }],
  ["that it is restored", "08 02 10 01 22 03 08 ac02", { success: true, pid: 300 }],
  ["that it is written", "08 01 10 01 1a 02 08 00", { success: true, pid: undefined }],
  ["a failure", "08 02 10 00 38 05", { success: false, pid: undefined }],
  ["that it did not understand", "08 00 10 00", { success: false, pid: undefined }],
])("it tells %s", (_what, bytes, answer) => {
  expect(criuAnswer(hex(bytes))).toEqual(answer);
});
