/** Valid requests damaged at random. The same seed gives the same requests. */
import type { SeededRandom } from "../../base/testing/fuzz.ts";

export interface PlainRequest {
  method: string;
  path: string;
  headers: [name: string, value: string][];
  body: Uint8Array;
}

const NASTY_VALUES = [
  "",
  "-1",
  "0",
  "1e9",
  "99999999999",
  "\x01",
  "é",
  "gzip",
  "chunked",
  "identity, gzip",
  "x".repeat(20_000),
  "application/connect+json",
  "application/proto",
  "application/json; charset=latin1",
  "Basic Og==",
  "bytes=9-1",
];
const NASTY_BYTES = [
  [0xff, 0xff, 0xff, 0xff],
  [0, 0, 0, 0],
  [0x80],
  [0x7f, 0xff, 0xff, 0xff],
  [0x22],
  [0x5c, 0x22],
  [0x7b, 0x5b],
];

type Damage = (bytes: Buffer, random: SeededRandom) => Buffer;

const DAMAGES: Damage[] = [
  (bytes, random) => {
    const at = random.below(bytes.length);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
    return bytes;
  },
  (bytes, random) => bytes.subarray(0, random.below(bytes.length + 1)),
  (bytes, random) => {
    const [from, size] = [random.below(bytes.length), 1 + random.below(64)];
    const piece = bytes.subarray(from, from + size);
    const times = Array.from({ length: 1 + random.below(50) }, () => piece);
    return Buffer.concat([bytes.subarray(0, from), ...times, bytes.subarray(from)]);
  },
  (bytes, random) => {
    const from = random.below(bytes.length);
    return Buffer.concat([bytes.subarray(0, from), bytes.subarray(from + 1 + random.below(16))]);
  },
  (bytes, random) => {
    const at = random.below(bytes.length + 1);
    return Buffer.concat([bytes.subarray(0, at), Buffer.from(random.pick(NASTY_BYTES)), bytes.subarray(at)]);
  },
];

function damaged(bytes: Uint8Array, random: SeededRandom): Buffer {
  let result: Buffer = Buffer.from(bytes);
  for (let count = 1 + random.below(3); count > 0 && result.length > 0; count--)
    result = random.pick(DAMAGES)(result, random);
  return result;
}

function damagedHeaders(headers: PlainRequest["headers"], random: SeededRandom): PlainRequest["headers"] {
  const at = random.below(headers.length);
  const [name, value] = headers[at] ?? ["X", ""];
  const others = headers.filter((_, index) => index !== at);
  switch (random.below(4)) {
    case 0:
      return others;
    case 1:
      return [...headers, [name, value]];
    case 2:
      return [...others, [name, random.pick(NASTY_VALUES)]];
    default:
      return [...others, [damaged(Buffer.from(name), random).toString("latin1"), value]];
  }
}

/** A request damaged in its body, its headers or anywhere, as bytes to send. Its Content-Length is often correct. */
export function mutate(request: PlainRequest, random: SeededRandom): Buffer {
  const body = random.below(3) > 0 ? damaged(request.body, random) : request.body;
  const headers = random.below(3) === 0 ? damagedHeaders(request.headers, random) : request.headers;
  const length = random.below(4) > 0 ? body.length : random.below(100_000);
  const lines = [["Host", "guest"], ...headers, ["Content-Length", String(length)]];
  const head = `${request.method} ${request.path} HTTP/1.1\r\n${lines.map((line) => `${line.join(": ")}\r\n`).join("")}\r\n`;
  const whole = Buffer.concat([Buffer.from(head, "latin1"), body]);
  return random.below(8) === 0 ? damaged(whole, random) : whole;
}
