/**
 * Requests that break the rules of HTTP, of the protocol or of its messages, as raw bytes to a real daemon. Each gets a
 * clear response at once, the same in both encodings, and the daemon survives them all.
 */
import { afterEach, describe, expect, test } from "bun:test";
import type { JsonValue } from "@bufbuild/protobuf";
import { ENCODINGS, type Encoding, encode } from "../testing/encodings.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { type RawOptions, type RawResponse, rawExchange, rawRequest } from "../testing/raw-exchange.ts";
import { envelopeOf, frames } from "../testing/running-guest.ts";
import { GUEST_RPC_MESSAGE_MAX_BYTES } from "./rpc.ts";

const START = "process.Process/Start";
const STAT = "filesystem.Filesystem/Stat";
const SIGNAL = "process.Process/SendSignal";

const guest = await guestOfFile();
const pid = guest.pid;
// Guards against a guest that ends on an exception in a timer, or that throws at unknown flags.
afterEach(async () => {
  expect((await guest.fetch("/health")).status).toBe(204);
  expect(guest.pid).toBe(pid);
  process.kill(pid, 0);
});

type Headers = Record<string, string>;
const contentType = (encoding: Encoding, stream: boolean) =>
  `application/${stream ? "connect+" : ""}${encoding === "json" ? "json" : "proto"}`;

function send(method: string, type: string, body: Uint8Array | string, headers: Headers = {}, options?: RawOptions) {
  return rawExchange(guest.port, rawRequest(`/${method}`, { "Content-Type": type, ...headers }, body), options);
}

/** The code that an answer carries, whichever form it has. */
function codeOf({ status, body }: RawResponse): string {
  const json = body.subarray(Math.max(0, body.indexOf("{"))).toString();
  const response = JSON.parse(json) as { code?: string; error?: { code: string } };
  return `${status} ${response.code ?? response.error?.code}`;
}

describe.each(ENCODINGS)("in %s,", (encoding) => {
  const type = contentType(encoding, true);
  const start = (message: JsonValue = { process: { cmd: "/bin/true" } }) => encode(START, message, encoding);
  const whole = envelopeOf(start());
  const tooLong = new Uint8Array(5);
  new DataView(tooLong.buffer).setUint32(1, GUEST_RPC_MESSAGE_MAX_BYTES + 1);

  // Guards against unknown flags that run the command, and a wait for a message that is too long.
  test.each<[string, string, Uint8Array | string]>([
    ["200 internal", "that says it is compressed, of a stream that is not", envelopeOf(start(), 0x01)],
    ["200 unimplemented", "that ends the stream instead of carrying a message", envelopeOf(start(), 0x02)],
    ["200 invalid_argument", "with an unknown flag", envelopeOf(start(), 0x04)],
    ["200 invalid_argument", "with all flags but the known", envelopeOf(start(), 0xfc)],
    [
      "200 invalid_argument",
      "with an unknown flag after a good one",
      Buffer.concat([whole, envelopeOf(start(), 0x80)]),
    ],
    ["200 invalid_argument", "cut in its message", whole.subarray(0, -2)],
    ["200 invalid_argument", "cut in its head", whole.subarray(0, 3)],
    ["200 unimplemented", "where a second one follows", Buffer.concat([whole, whole])],
    ["200 invalid_argument", "where a stray byte follows", Buffer.concat([whole, new Uint8Array(1)])],
    ["200 unimplemented", "that is missing", ""],
    ["200 resource_exhausted", "longer than the limit", tooLong],
    ["200 invalid_argument", "with an empty message", envelopeOf(new Uint8Array())],
    ["200 invalid_argument", "with a message in neither encoding", envelopeOf(Buffer.from([0xff, 0xff, 0xff]))],
  ])("%s: an envelope %s", async (code, _, body) => {
    expect(codeOf(await send(START, type, body))).toBe(code);
  });

  // Guards against a version that is not checked; the library checks timeouts and compression.
  test.each([
    ["200 invalid_argument", { "Connect-Timeout-Ms": "-1" }],
    ["200 invalid_argument", { "Connect-Timeout-Ms": "1.5" }],
    ["200 invalid_argument", { "Connect-Timeout-Ms": "soon" }],
    ["200 invalid_argument", { "Connect-Timeout-Ms": "" }],
    ["200 invalid_argument", { "Connect-Timeout-Ms": "12345678901" }],
    ["200 deadline_exceeded", { "Connect-Timeout-Ms": "0" }],
    ["200 invalid_argument", { "Connect-Protocol-Version": "2" }],
    ["200 invalid_argument", { "Connect-Protocol-Version": "" }],
    ["200 unimplemented", { "Connect-Content-Encoding": "zstd" }],
  ] as [string, Headers][])("%s: a stream with %p", async (code, headers) => {
    expect(codeOf(await send(START, type, whole, headers))).toBe(code);
  });

  // Guards against an interval read with Number(): 0, -1 and NaN then give a flood of keepalives.
  test.each(["-1", "0", "0.001", "often", "", "99999999999999999999"])("a keepalive of %j is ignored", async (text) => {
    const brief = envelopeOf(start({ process: { cmd: "/bin/sleep", args: ["0.05"] } }));
    const { body } = await send(START, type, brief, { "Keepalive-Ping-Interval": text });
    const reported = await Array.fromAsync(frames(new Blob([new Uint8Array(body)]).stream()));
    expect([reported.length, reported.at(-2)?.payload.includes("exit status 0")]).toEqual([3, true]);
  });

  test.each([
    ["400 invalid_argument", { "Connect-Timeout-Ms": "-1" }],
    ["400 invalid_argument", { "Connect-Protocol-Version": "1.0" }],
    ["501 unimplemented", { "Content-Encoding": "zstd" }],
    ["429 resource_exhausted", { "Content-Length": String(GUEST_RPC_MESSAGE_MAX_BYTES + 1) }],
  ] as [string, Headers][])("%s: a unary call with %p", async (code, headers) => {
    expect(codeOf(await send(STAT, contentType(encoding, false), encode(STAT, { path: "/" }, encoding), headers))).toBe(
      code,
    );
  });

  // Bun takes a half-closed connection for a closed one, whatever the daemon does: no daemon was found weak enough to
  // fail this.
  test("a half-closed connection is closed, not left waiting", async () => {
    const headers = { "Content-Length": "5000" };
    const stream = await send(START, type, whole, headers, { halfClose: true });
    const unary = await send(STAT, contentType(encoding, false), "", headers, { halfClose: true });
    const complete = await send(START, type, whole, {}, { halfClose: true });
    expect([stream.closed, unary.closed, complete.closed]).toEqual([true, true, true]);
  });

  // Guards against killing the process at an unknown signal.
  test("an unknown enum value is not a signal", async () => {
    const sleeper = await guest.stream(START, { process: { cmd: "/bin/sleep", args: ["300"] } });
    const began = await sleeper.next();
    const target = { pid: began.value?.json.event?.start?.pid ?? 0 };
    const type = contentType(encoding, false);
    expect(codeOf(await send(SIGNAL, type, encode(SIGNAL, { process: target, signal: 77 }, encoding)))).toBe(
      "501 unimplemented",
    );
    await guest.call(SIGNAL, { process: target, signal: "SIGNAL_SIGKILL" });
    await sleeper.return(undefined);
  });
});

// Guards against the library's own reader: it mends the path, and needs 525 MB of memory for 10 MB of brackets.
test.each<[string, string, string | Uint8Array]>([
  ["400 invalid_argument", "is no JSON", "{"],
  ["400 invalid_argument", "is no object", "[]"],
  ["400 invalid_argument", "is null", "null"],
  ["400 invalid_argument", "has a field of another type", '{"path":1}'],
  ["400 invalid_argument", "has a field twice", '{"path":"/","path":"/tmp"}'],
  ["400 invalid_argument", "is not UTF-8", Buffer.from('{"path":"/tmp/\xff"}', "latin1")],
  ["400 invalid_argument", "has half a character", '{"path":"/tmp/\\ud800"}'],
  ["400 invalid_argument", "has a zero byte in a path", '{"path":"/tmp/\\u0000"}'],
  ["400 invalid_argument", "is deep", `{"x":${"[".repeat(65)}${"]".repeat(65)}}`],
  ["400 invalid_argument", "is deep beyond all measure", "[".repeat(20_000_000)],
  ["429 resource_exhausted", "has a little in very many places", `{"x":[${"[],".repeat(5_000_000)}0]}`],
])("%s: JSON that %s", async (code, _, body) => {
  expect(codeOf(await send(STAT, "application/json", body))).toBe(code);
  expect((await guest.memoryKib()).peak).toBeLessThan(300 * 1024);
});

test("JSON strings may contain any number of brackets, quotes and backslashes", async () => {
  const path = `/tmp/${"[{".repeat(5_000)}\\"\\\\`;
  const response = await send(STAT, "application/json", JSON.stringify({ path, x: [path] }));
  expect(codeOf(response)).toMatch(/not_found|internal/);
});

// Guards against 500 internal, which would blame the guest.
test.each<[string, number[] | Uint8Array]>([
  ["ends in the middle", [0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f, 1]],
  ["has a number without end", new Uint8Array(50).fill(0xff)],
  ["has text that is not UTF-8", [0x0a, 2, 0xff, 0xfe]],
  ["is deep beyond all measure", new Uint8Array(3_000_000).fill(0x7b)],
])("400 invalid_argument: a binary message that %s", async (_, bytes) => {
  expect(codeOf(await send(STAT, "application/proto", new Uint8Array(bytes)))).toBe("400 invalid_argument");
});

// Such requests end in Bun's own parser; none of ours could be weakened to leave one waiting.
test.each([
  ["no length that is a number", "Content-Length: -1"],
  ["two lengths", "Content-Length: 2\r\nContent-Length: 3"],
  ["a length and chunks", "Content-Length: 2\r\nTransfer-Encoding: chunked"],
  ["a header without a colon", "Nonsense"],
  ["a control character in a header", "X-Y: a\x01b\x00c"],
])("a request with %s is rejected or answered, never left waiting", async (_, header) => {
  const head = `POST /${STAT} HTTP/1.1\r\nHost: guest\r\nContent-Type: application/json\r\n${header}\r\n\r\n`;
  const { status, closed } = await rawExchange(guest.port, Buffer.from(`${head}{}`, "latin1"), { halfClose: true });
  expect([closed, [0, 200, 400].includes(status)]).toEqual([true, true]);
});
