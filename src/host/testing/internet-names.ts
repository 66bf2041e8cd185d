/**
 * The names of the test internet, and a name server for them. A name below rebind.test resolves to another address with
 * every second query; each label counts separately, so a test uses its own.
 */
import { CLOSED_EXAMPLES, OUTSIDE, OUTSIDE_IPV6, OUTSIDE_NAME, SITES, UNANSWERED } from "./outer-network.ts";

const NO_ERROR = 0;
const SERVER_FAILED = 2;
const NO_SUCH_NAME = 3;
const TYPE = { A: 1, CNAME: 5, TXT: 16, AAAA: 28 } as const;
const ANY_TYPE = 255;
const HEADER_BYTES = 12;
const DATAGRAM_MAX_BYTES = 512;
/** Length of the alias chain that the server returns for a name that is its own alias. */
const ALIASES_MAX = 8;
const COUNTED_NAMES_MAX = 10_000;

interface Records {
  a?: readonly string[];
  aaaa?: readonly string[];
  txt?: readonly string[];
  alias?: string;
  fails?: true;
  /** The server never replies. */
  silent?: true;
}

export const NAMES: Readonly<Record<string, Records>> = {
  [OUTSIDE_NAME]: { a: [OUTSIDE] },
  ...Object.fromEntries(Object.entries(SITES).map(([name, address]) => [name, { a: [address] }])),
  // As documentation names them.
  "example.com": { a: [SITES["allowed.test"]] },
  "www.example.com": { alias: "example.com" },
  "httpbin.org": { a: [SITES["allowed.test"]] },
  // Chains of aliases, up to a name that may not be allowed itself.
  "alias.test": { alias: "second.alias.test" },
  "second.alias.test": { alias: "allowed.test" },
  "circle.test": { alias: "circle.test" },
  "metadata.test": { a: [CLOSED_EXAMPLES.metadata] },
  "private.test": { a: [CLOSED_EXAMPLES.private] },
  "lan.test": { a: [CLOSED_EXAMPLES.lan] },
  "loopback.test": { a: ["127.0.0.1"] },
  "zero.test": { a: ["0.0.0.0"] },
  "alias-of-private.test": { alias: "private.test" },
  "mixed.test": { a: [CLOSED_EXAMPLES.private, SITES["allowed.test"]] },
  "half.test": { a: [UNANSWERED, SITES["allowed.test"]] },
  "nobody.test": { a: [UNANSWERED] },
  "six.test": { aaaa: [OUTSIDE_IPV6] },
  "both.test": { a: [SITES["allowed.test"]], aaaa: [OUTSIDE_IPV6] },
  // Longer than a datagram.
  "long.test": { txt: Array.from({ length: 20 }, (_, index) => `${index} `.padEnd(200, "x")) },
  "failing.test": { fails: true },
  "silent.test": { silent: true },
};

/** How often each name was queried, in any type. */
const queries = new Map<string, number>();
const rebound = new Map<string, number>();

export function timesAsked(name: string): number {
  return queries.get(name.toLowerCase()) ?? 0;
}

/** The reply to a query for one name; undefined: no reply. Over TCP its length is unlimited. */
export function answerQuestion(query: Buffer, over: "udp" | "tcp"): Buffer | undefined {
  const { name, type, question } = parse(query);
  count(queries, name);
  const found = recordsOf(name, type);
  if (found?.silent === true) return undefined;
  const records = found === undefined || found.fails === true ? [] : written(name, found, type);
  const code = found === undefined ? NO_SUCH_NAME : found.fails === true ? SERVER_FAILED : NO_ERROR;
  const whole = [header(query, code, records.length, false), question, ...records];
  const bytes = Buffer.concat(whole);
  if (over === "tcp" || bytes.length <= DATAGRAM_MAX_BYTES) return bytes;
  return Buffer.concat([header(query, code, 0, true), question]);
}

/** Parses a name from its labels, with any bytes they contain. */
function parse(query: Buffer): { name: string; type: number; question: Buffer } {
  const labels: string[] = [];
  let end = HEADER_BYTES;
  while (end < query.length && query[end] !== 0) {
    const length = query[end] ?? 0;
    labels.push(query.subarray(end + 1, end + 1 + length).toString("latin1"));
    end += length + 1;
  }
  const question = query.subarray(HEADER_BYTES, end + 5);
  return { name: labels.join(".").toLowerCase(), type: query.readUInt16BE(end + 1), question };
}

function recordsOf(name: string, type: number): Records | undefined {
  if (name.endsWith(".wild.test")) return { a: [SITES["wild.test"]] };
  if (name.endsWith(".rebind.test")) {
    if (type !== TYPE.A) return {};
    const isSecond = count(rebound, name) % 2 === 0;
    return { a: [isSecond ? CLOSED_EXAMPLES.metadata : SITES["allowed.test"]] };
  }
  return NAMES[name];
}

/** The records of a name that fit the type, after those of its aliases. */
function written(name: string, { alias, a = [], aaaa = [], txt = [] }: Records, type: number, step = 0): Buffer[] {
  if (alias !== undefined) {
    const next = recordsOf(alias, type) ?? {};
    const first = record(name, TYPE.CNAME, encoded(alias));
    return step === ALIASES_MAX ? [first] : [first, ...written(alias, next, type, step + 1)];
  }
  const all = [
    ...a.map((ip) => ({ of: TYPE.A, data: ipv4(ip) })),
    ...aaaa.map((ip) => ({ of: TYPE.AAAA, data: ipv6(ip) })),
    ...txt.map((text) => ({ of: TYPE.TXT, data: label(text) })),
  ];
  return all.filter(({ of }) => type === of || type === ANY_TYPE).map(({ of, data }) => record(name, of, data));
}

function header(query: Buffer, code: number, records: number, isCut: boolean): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES);
  query.copy(bytes, 0, 0, 2);
  bytes.writeUInt16BE(0x8180 | (isCut ? 0x0200 : 0) | code, 2);
  bytes.writeUInt16BE(1, 4);
  bytes.writeUInt16BE(records, 6);
  return bytes;
}

function record(name: string, type: number, data: Buffer): Buffer {
  // Class IN, with a TTL of zero, so that every query gets a new reply.
  const fixed = Buffer.from([0, type, 0, 1, 0, 0, 0, 0, data.length >> 8, data.length & 255]);
  return Buffer.concat([encoded(name), fixed, data]);
}

function encoded(name: string): Buffer {
  return Buffer.concat([...name.split(".").map(label), Buffer.from([0])]);
}

function label(text: string): Buffer {
  return Buffer.concat([Buffer.from([text.length]), Buffer.from(text, "latin1")]);
}

function ipv4(address: string): Buffer {
  return Buffer.from(address.split(".").map(Number));
}

function ipv6(address: string): Buffer {
  const [before = "", after = ""] = address.split("::");
  const groups = (part: string) => (part === "" ? [] : part.split(":"));
  const [first, last] = [groups(before), groups(after)];
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => "0");
  return Buffer.from([...first, ...zeros, ...last].map((group) => group.padStart(4, "0")).join(""), "hex");
}

/** Adds one and returns the new count. */
export function count(counts: Map<string, number>, what: string): number {
  const times = (counts.get(what) ?? 0) + 1;
  counts.delete(what);
  counts.set(what, times);
  if (counts.size > COUNTED_NAMES_MAX) counts.delete(counts.keys().next().value ?? "");
  return times;
}
