/** Which requests are read without the protocol library, and what is read from them. */
import { describe, expect, test } from "bun:test";
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { StartRequestSchema } from "../../contract/runtime/wire/process/process_pb.ts";
import { envelope, envelopeOf } from "../testing/running-guest.ts";
import { isPlainHead, plainCall } from "./plain-call.ts";

const PLAIN = {
  "Content-Type": "application/connect+json",
  "Content-Length": "100",
  "Connect-Protocol-Version": "1",
  "Connect-Timeout-Ms": "60000",
};

function isPlain(changed: Record<string, string>, method = "POST"): boolean {
  return isPlainHead(new Request("http://guest/", { method, headers: { ...PLAIN, ...changed } }));
}

describe("a head is plain", () => {
  test("as clients send it", () => expect(isPlain({})).toBe(true));
  test("without version and limit of time", () => {
    const { "Content-Type": type, "Content-Length": length } = PLAIN;
    const headers = { "Content-Type": type, "Content-Length": length };
    expect(isPlainHead(new Request("http://guest/", { method: "POST", headers }))).toBe(true);
  });
});

describe("a head is for the library with", () => {
  test.each<Record<string, string>>([
    { "Content-Type": "application/connect+proto" },
    { "Content-Type": "application/connect+json; charset=utf-8" },
    { "Content-Length": "65537" },
    { "Content-Length": "1000000000000" },
    { "Connect-Protocol-Version": "2" },
    { "Connect-Content-Encoding": "gzip" },
    { "Connect-Timeout-Ms": "0" },
    { "Connect-Timeout-Ms": "1.5" },
    { "Connect-Timeout-Ms": "4294967296" },
  ])("%j", (changed) => expect(isPlain(changed)).toBe(false));

  test("another method", () => expect(isPlain({}, "PUT")).toBe(false));
  test("no length", () => {
    const headers = { "Content-Type": PLAIN["Content-Type"] };
    expect(isPlainHead(new Request("http://guest/", { method: "POST", headers }))).toBe(false);
  });
});

// Seen to fail with each of the defaults left out.
test.each<JsonObject>([
  { process: { cmd: "/bin/bash", args: ["-l", "-c", "true"], envs: { A: "b" }, cwd: "/tmp" }, tag: "t", stdin: false },
  { process: { cmd: "true" } },
  { process: {} },
  { process: { cmd: "", cwd: "" }, stdin: true },
  { process: { cmd: 'ü 😀 \n\t"\\' }, pty: { size: { cols: 80, rows: 24 } } },
  { process: { cmd: "sh" }, pty: { size: { cols: 0, rows: 2 ** 32 - 1 } } },
])("%j is read as the library reads it", (message) => {
  const { $typeName: _, process, pty, ...others } = fromJson(StartRequestSchema, message);
  const texts = { cmd: process?.cmd, args: process?.args, envs: process?.envs, cwd: process?.cwd };
  const size = pty?.size && { cols: pty.size.cols, rows: pty.size.rows };
  expect(plainCall(envelope(message))).toEqual({ ...others, process: texts as never, ...(size && { pty: { size } }) });
});

describe("a message is for the library with", () => {
  const process = { cmd: "true" };
  test.each<[string, unknown]>([
    ["no process", {}],
    ["an unknown field", { process, other: 1 }],
    ["an unknown field of the process", { process: { cmd: "true", shell: true } }],
    ["a field of an object's own", { process: { cmd: "true" }, constructor: {} }],
    ["null in place of a field", { process, pty: null }],
    ["a list in place of the process", { process: [] }],
    ["a number in place of a text", { process: { cmd: 1 } }],
    ["a number among the arguments", { process: { cmd: "a", args: ["b", 1] } }],
    ["a list in place of variables", { process: { cmd: "a", envs: ["b"] } }],
    ["an object in place of arguments", { process: { cmd: "a", args: {} } }],
    ["a number as a variable", { process: { cmd: "a", envs: { B: 1 } } }],
    ["a text in place of a boolean", { process, stdin: "true" }],
    ["a terminal without a size", { process, pty: {} }],
    ["half a size", { process, pty: { size: { cols: 80 } } }],
    ["a size that is too large", { process, pty: { size: { cols: 2 ** 32, rows: 1 } } }],
    ["a size in words", { process, pty: { size: { cols: "80", rows: 24 } } }],
    ["something else about the terminal", { process, pty: { size: { cols: 80, rows: 24 }, term: "x" } }],
    ["a character that is written by its number", { process: { cmd: "\u001b" } }],
    ["a list", []],
    ["null", null],
  ])("%s", (_, message) => expect(plainCall(envelope(message))).toBeUndefined());

  test.each<[string, Uint8Array]>([
    [
      "a variable that is called like an object's origin",
      envelopeOf(Buffer.from('{"process":{"envs":{"__proto__":"x"}}}')),
    ],
    ["broken JSON", envelopeOf(Buffer.from('{"process":'))],
    ["text that is not UTF-8", envelopeOf(Buffer.from([0x22, 0xff, 0x22]))],
    ["flags", envelopeOf(Buffer.from('{"process":{}}'), 1)],
    ["two envelopes", Buffer.concat([envelope({ process }), envelope({ process })])],
    ["half an envelope", envelope({ process }).subarray(0, 12)],
    ["less than a head", new Uint8Array(3)],
    ["deep nesting", envelopeOf(Buffer.from(`${"[".repeat(60_000)}${"]".repeat(60_000)}`))],
  ])("%s", (_, bytes) => expect(plainCall(bytes)).toBeUndefined());
});
