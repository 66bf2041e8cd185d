/** Valid requests damaged at random. The same seed gives the same requests. */
export interface PlainRequest {
  method: string;
  path: string;
  headers: [name: string, value: string][];
  body: Uint8Array;
}

/** Numbers from 0 up to, not including, `below`; the sequence depends on the seed alone (mulberry32). */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  roll(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  }

  pick<T>(list: readonly T[]): T {
    const picked = list[this.roll(list.length)];
    if (picked === undefined) throw new Error("nothing to pick from");
    return picked;
  }
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

type Damage = (bytes: Buffer, dice: Dice) => Buffer;

const DAMAGES: Damage[] = [
  (bytes, dice) => {
    const at = dice.roll(bytes.length);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << dice.roll(8));
    return bytes;
  },
  (bytes, dice) => bytes.subarray(0, dice.roll(bytes.length + 1)),
  (bytes, dice) => {
    const [from, size] = [dice.roll(bytes.length), 1 + dice.roll(64)];
    const piece = bytes.subarray(from, from + size);
    const times = Array.from({ length: 1 + dice.roll(50) }, () => piece);
    return Buffer.concat([bytes.subarray(0, from), ...times, bytes.subarray(from)]);
  },
  (bytes, dice) => {
    const from = dice.roll(bytes.length);
    return Buffer.concat([bytes.subarray(0, from), bytes.subarray(from + 1 + dice.roll(16))]);
  },
  (bytes, dice) => {
    const at = dice.roll(bytes.length + 1);
    return Buffer.concat([bytes.subarray(0, at), Buffer.from(dice.pick(NASTY_BYTES)), bytes.subarray(at)]);
  },
];

function damaged(bytes: Uint8Array, dice: Dice): Buffer {
  let result: Buffer = Buffer.from(bytes);
  for (let count = 1 + dice.roll(3); count > 0 && result.length > 0; count--) result = dice.pick(DAMAGES)(result, dice);
  return result;
}

function damagedHeaders(headers: PlainRequest["headers"], dice: Dice): PlainRequest["headers"] {
  const at = dice.roll(headers.length);
  const [name, value] = headers[at] ?? ["X", ""];
  const others = headers.filter((_, index) => index !== at);
  switch (dice.roll(4)) {
    case 0:
      return others;
    case 1:
      return [...headers, [name, value]];
    case 2:
      return [...others, [name, dice.pick(NASTY_VALUES)]];
    default:
      return [...others, [damaged(Buffer.from(name), dice).toString("latin1"), value]];
  }
}

/** A request damaged in its body, its headers or anywhere, as bytes to send. Its Content-Length is often correct. */
export function mutate(request: PlainRequest, dice: Dice): Buffer {
  const body = dice.roll(3) > 0 ? damaged(request.body, dice) : request.body;
  const headers = dice.roll(3) === 0 ? damagedHeaders(request.headers, dice) : request.headers;
  const length = dice.roll(4) > 0 ? body.length : dice.roll(100_000);
  const lines = [["Host", "guest"], ...headers, ["Content-Length", String(length)]];
  const head = `${request.method} ${request.path} HTTP/1.1\r\n${lines.map((line) => `${line.join(": ")}\r\n`).join("")}\r\n`;
  const whole = Buffer.concat([Buffer.from(head, "latin1"), body]);
  return dice.roll(8) === 0 ? damaged(whole, dice) : whole;
}
