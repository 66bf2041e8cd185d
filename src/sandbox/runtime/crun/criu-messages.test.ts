/** Requests to CRIU and responses from it, compared with the bytes that CRIU's own library writes. */
import { expect, test } from "bun:test";
import { criuResponse, dumpRequest, restoreRequest, stageReply } from "./criu-messages.ts";

const hex = (text: string) => new Uint8Array(Buffer.from(text.replaceAll(" ", ""), "hex"));
const text = (words: string) => `${Buffer.from([words.length]).toString("hex")} ${Buffer.from(words).toString("hex")}`;
const NO_FD = "08 ffffffffffffffffff01";

test("a dump names the process, the folders and what is outside the image", () => {
  const request = { imagesFolder: "/i", logLevel: 4, pid: 300, workFd: 11, external: ["mnt[/a]:/a", "b"] };
  const external = `8801 0b aa02 ${text("mnt[/a]:/a")} aa02 ${text("b")}`;
  expect(dumpRequest(request)).toEqual(hex(`08 01 12 2b ${NO_FD} 10 ac02 48 04 60 01 ${external} a204 ${text("/i")}`));
});

test("a restore has every option in its request", () => {
  const request = { imagesFolder: "/i", logLevel: 1, logFile: "l", configFile: "/c", root: "/r", cgroup: "/g" };
  const options = [
    `${NO_FD} 40 01 48 01 52 ${text("l")} 60 01 6a ${text("/r")}`,
    `ca01 04 12 ${text("/g")} 9002 03 9a03 ${text("/c")} a204 ${text("/i")}`,
  ].join("");
  expect(restoreRequest(request)).toEqual(hex(`08 02 12 2c ${options}`));
});

test("after a stage CRIU continues, or fails", () => {
  expect(stageReply(true)).toEqual(hex("08 06 18 01"));
  expect(stageReply(false)).toEqual(hex("08 06 18 00"));
});

test.each([
  ["a stage", "08 06 10 01 2a 09 0a 07 726573756d6564", { stage: { name: "resumed" } }],
  ["a stage with the first process", "08 06 10 01 2a 06 0a 01 78 10 ac02", { stage: { name: "x", pid: 300 } }],
  ["a restore", "08 02 10 01 22 03 08 ac02", { success: true, restored: { pid: 300 } }],
  ["a dump", "08 01 10 01 1a 02 08 00", { success: true }],
  ["a failure with an error number", "08 02 10 00 38 05", { success: false }],
  ["a request that CRIU did not understand", "08 00 10 00", { success: false }],
])("a response reports %s", (_what, bytes, response) => {
  expect(criuResponse(hex(bytes))).toMatchObject(response);
});
