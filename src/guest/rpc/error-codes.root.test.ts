/** Every error code of the runtime: unary and on streams, in JSON and in binary, with the status of the table. */
import { describe, expect, test } from "bun:test";
import { symlinkSync } from "node:fs";
import type { JsonValue } from "@bufbuild/protobuf";
import { ENCODINGS, encode, speaking } from "../testing/encodings.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { ProcessCalls } from "../testing/process-calls.ts";
import { basic, envelopeOf, frames } from "../testing/running-guest.ts";

const NOBODY = 4_000_000;
const guest = await guestOfFile();
symlinkSync("loop", `${guest.folder}/loop`);
const processes = new ProcessCalls(guest);
const sleeper = { process: { cmd: "/bin/sleep", args: ["300"] } };
const pty = { size: { cols: 80, rows: 24 } };
const pipes = { pid: (await processes.start(sleeper)).pid };
const terminal = { pid: (await processes.start({ ...sleeper, pty })).pid };

type Headers = Record<string, string>;
interface Row {
  code: string;
  status: number;
  unary?: () => [method: string, message: JsonValue, headers?: Headers];
  stream?: () => [method: string, messages: JsonValue[], headers?: Headers];
}

const process = "process.Process";
const filesystem = "filesystem.Filesystem";
const stdin = { stdin: "eA==" };
const atOnce = { "Connect-Timeout-Ms": "0" };

const ROWS: Row[] = [
  { code: "unknown", status: 500, unary: () => [`${process}/CloseStdin`, { process: terminal }] },
  {
    code: "invalid_argument",
    status: 400,
    unary: () => [`${filesystem}/Stat`, { path: "~ghost" }],
    stream: () => [`${process}/Start`, [{ process: { cmd: "true", cwd: "/nowhere" } }]],
  },
  {
    code: "deadline_exceeded",
    status: 504,
    unary: () => [`${process}/List`, {}, atOnce],
    stream: () => [`${process}/Connect`, [{ process: pipes }], { "Connect-Timeout-Ms": "50" }],
  },
  {
    code: "not_found",
    status: 404,
    unary: () => [`${process}/SendSignal`, { process: { pid: NOBODY }, signal: 9 }],
    stream: () => [`${process}/Connect`, [{ process: { tag: "nobody" } }]],
  },
  { code: "already_exists", status: 409, unary: () => [`${filesystem}/MakeDir`, { path: "/tmp" }] },
  {
    code: "resource_exhausted",
    status: 429,
    unary: () => [`${process}/SendInput`, { process: pipes, input: { stdin: "A".repeat(90 << 20) } }],
    stream: () => [`${process}/StreamInput`, [{ data: { input: { stdin: "A".repeat(90 << 20) } } }]],
  },
  {
    code: "failed_precondition",
    status: 400,
    unary: () => [`${filesystem}/ListDir`, { path: `${guest.folder}/loop` }],
  },
  {
    code: "unimplemented",
    status: 501,
    unary: () => [`${process}/SendInput`, { process: pipes }],
    stream: () => [`${process}/Connect`, [{}]],
  },
  {
    code: "internal",
    status: 500,
    unary: () => [`${process}/SendInput`, { process: terminal, input: stdin }],
    stream: () => [`${process}/StreamInput`, [{ start: { process: terminal } }, { data: { input: stdin } }]],
  },
  { code: "unimplemented", status: 501, unary: () => [`${process}/SendSignal`, { process: pipes }] },
  { code: "internal", status: 500, unary: () => [`${process}/Update`, { process: pipes, pty }] },
  {
    code: "internal",
    status: 500,
    unary: () => [`${process}/SendInput`, { process: pipes, input: { pty: "eA==" } }],
  },
  {
    code: "unauthenticated",
    status: 401,
    unary: () => [`${process}/List`, {}, basic("ghost")],
    stream: () => [`${process}/Start`, [{ process: { cmd: "true" } }], basic("ghost")],
  },
];

describe.each(ENCODINGS)("in %s,", (encoding) => {
  // Guards against `internal` for unknown errors in the table of rpc-fault.ts.
  test.each(ROWS.flatMap(({ unary, ...row }) => (unary ? [{ ...row, unary }] : [])))(
    "a unary call fails with $code",
    async ({ code, status, unary }) => {
      const [method, message, headers] = unary();
      const response = await speaking(guest, encoding).call(method, message, headers);
      expect([response.status, response.headers.get("content-type")]).toEqual([status, "application/json"]);
      expect(await response.json()).toEqual({ code, message: expect.stringMatching(/\S/) });
    },
  );

  // Guards against one form of errors for all calls: a stream responds 200, then sends its error.
  test.each(ROWS.flatMap(({ stream, ...row }) => (stream ? [{ ...row, stream }] : [])))(
    "a stream ends with $code",
    async ({ code, stream }) => {
      const [method, messages, headers] = stream();
      const type = encoding === "json" ? "application/connect+json" : "application/connect+proto";
      const response = await guest.fetch(`/${method}`, {
        method: "POST",
        headers: { "Content-Type": type, ...headers },
        body: Buffer.concat(messages.map((message) => envelopeOf(encode(method, message, encoding)))),
      });
      expect([response.status, response.headers.get("content-type")]).toEqual([200, type]);
      const reported = response.body === null ? [] : await Array.fromAsync(frames(response.body));
      const end = reported.at(-1);
      expect(end?.flags).toBe(2);
      expect(JSON.parse(end?.payload.toString() ?? "")).toEqual({
        error: { code, message: expect.stringMatching(/\S/) },
      });
    },
  );
});
