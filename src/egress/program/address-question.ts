/** Writes a DNS query for the IPv4 addresses of a name and reads its response. */

const HEADER_BYTES = 12;
const RECURSION_DESIRED = 0x0100;
const ANSWER = 0x8000;
const TRUNCATED = 0x0200;
const CODE = 0x000f;
const NO_SUCH_NAME = 3;
const TYPE_A = 1;
const TYPE_CNAME = 5;
const TYPE_OPT = 41;
const CLASS_IN = 1;
/** Fits every path without fragmentation. */
const DATAGRAM_BYTES = 1232;
const RECORDS_MAX = 64;
const ALIASES_MAX = 16;
const JUMPS_MAX = 32;

export interface Addresses {
  addresses: string[];
  ttlSeconds: number;
}

interface Reading {
  name: string;
  next: number;
}

/** `name` must have matched `DomainPatterns`. */
export function addressQuestion(id: number, name: string): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt16BE(id, 0);
  header.writeUInt16BE(RECURSION_DESIRED, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(1, 10);
  const labels = name.split(".").map((label) => Buffer.from([label.length, ...Buffer.from(label, "latin1")]));
  const options = Buffer.from([0, 0, TYPE_OPT, DATAGRAM_BYTES >> 8, DATAGRAM_BYTES & 255, 0, 0, 0, 0, 0, 0]);
  return Buffer.concat([header, ...labels, Buffer.from([0, 0, TYPE_A, 0, CLASS_IN]), options]);
}

/**
 * Undefined: not a response to this query, or a truncated one without addresses. No addresses: the name has none. The
 * addresses of a truncated response are as good as the missing ones.
 */
export function addressesIn(message: Buffer, id: number, name: string): Addresses | undefined {
  if (message.length < HEADER_BYTES || message.readUInt16BE(0) !== id) return undefined;
  const flags = message.readUInt16BE(2);
  if ((flags & ANSWER) === 0 || message.readUInt16BE(4) !== 1) return undefined;
  const question = nameAt(message, HEADER_BYTES);
  if (question === undefined || question.name !== name || question.next + 4 > message.length) return undefined;
  if (message.readUInt16BE(question.next) !== TYPE_A) return undefined;
  const code = flags & CODE;
  if (code !== 0 && code !== NO_SUCH_NAME) return { addresses: [], ttlSeconds: 0 };
  const found = following(recordsIn(message, question.next + 4, message.readUInt16BE(6)), name);
  return found.addresses.length === 0 && (flags & TRUNCATED) !== 0 ? undefined : found;
}

interface Answered {
  owner: string;
  ttlSeconds: number;
  value: { alias: string } | { address: string };
}

function recordsIn(message: Buffer, from: number, count: number): Answered[] {
  const found: Answered[] = [];
  let at = from;
  for (let index = 0; index < Math.min(count, RECORDS_MAX); index++) {
    const owner = nameAt(message, at);
    if (owner === undefined || owner.next + 10 > message.length) break;
    const type = message.readUInt16BE(owner.next);
    const ttlSeconds = message.readUInt32BE(owner.next + 4);
    const length = message.readUInt16BE(owner.next + 8);
    const content = owner.next + 10;
    at = content + length;
    if (at > message.length) break;
    if (type === TYPE_A && length === 4) {
      const address = [...message.subarray(content, at)].join(".");
      found.push({ owner: owner.name, ttlSeconds, value: { address } });
    } else if (type === TYPE_CNAME) {
      const alias = nameAt(message, content)?.name;
      if (alias !== undefined) found.push({ owner: owner.name, ttlSeconds, value: { alias } });
    }
  }
  return found;
}

/** Follows aliases from the name to its addresses and ignores all other records. */
function following(records: readonly Answered[], name: string): Addresses {
  let owner = name;
  let ttlSeconds = Number.POSITIVE_INFINITY;
  for (let step = 0; step < ALIASES_MAX; step++) {
    const own = records.filter((record) => record.owner === owner);
    const addresses = own.flatMap(({ value }) => ("address" in value ? [value.address] : []));
    ttlSeconds = Math.min(ttlSeconds, ...own.map((record) => record.ttlSeconds));
    if (addresses.length > 0) return { addresses, ttlSeconds };
    const alias = own.flatMap(({ value }) => ("alias" in value ? [value.alias] : []))[0];
    if (alias === undefined) break;
    owner = alias;
  }
  return { addresses: [], ttlSeconds: 0 };
}

/** The name in lower case, without the dot of the root. */
function nameAt(message: Buffer, from: number): Reading | undefined {
  const labels: string[] = [];
  let at = from;
  let next: number | undefined;
  for (let jumps = 0; ; ) {
    const length = message[at];
    if (length === undefined) return undefined;
    if (length >= 192) {
      const low = message[at + 1];
      if (low === undefined || ++jumps > JUMPS_MAX) return undefined;
      next ??= at + 2;
      at = (length - 192) * 256 + low;
      continue;
    }
    if (length > 63 || at + 1 + length > message.length || labels.length > 127) return undefined;
    if (length === 0) return { name: labels.join(".").toLowerCase(), next: next ?? at + 1 };
    labels.push(message.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
}
