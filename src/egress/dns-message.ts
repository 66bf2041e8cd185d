/**
 * What a DNS message of a sandbox asks for (RFC 1035). Read without trust: a message either is one question that can be
 * judged by its name, or gets a refusal, or nothing.
 */
const HEADER_BYTES = 12;
const NAME_MAX_BYTES = 255;
const LABEL_MAX_BYTES = 63;
/** What a label of a name of a host may hold. In others a dot, a NUL or a space would be read as something else. */
const PLAIN_LABEL = /^[a-z0-9_-]+$/i;

const IS_ANSWER = 0x8000;
const OPCODE = 0x7800;
const RECURSION_DESIRED = 0x0100;
const RECURSION_AVAILABLE = 0x0080;
/** That who asks knows about signatures, and whether it checks them itself. */
const SIGNATURES = 0x0030;
const CLASS_INTERNET = 1;
const TYPE_OPT = 41;
const OPT_BYTES = 11;
const DNSSEC_OK = 0x8000;
/** Types that ask for whole zones and the like: nothing that a resolver is there for. */
const TRANSFER_TYPES = { first: 249, last: 254 } as const;

export const REFUSAL = { malformed: 1, unknownOperation: 4, refused: 5 } as const;

export interface DnsQuestion {
  /** As it stands in the message: name, type and class. */
  bytes: Buffer;
  /** Empty where it is no name of a host: a rule that names something never means it. */
  name: string;
  isInternet: boolean;
}

/** Undefined: no word about it, for it may itself be an answer. A number: refuse it so. */
export function readQuery(message: Buffer): DnsQuestion | number | undefined {
  if (message.length < HEADER_BYTES) return undefined;
  const flags = message.readUInt16BE(2);
  if ((flags & IS_ANSWER) !== 0) return undefined;
  if ((flags & OPCODE) !== 0) return REFUSAL.unknownOperation;
  const end = message.readUInt16BE(4) === 1 ? endOfName(message) : undefined;
  if (end === undefined || end + 4 > message.length) return REFUSAL.malformed;
  const type = message.readUInt16BE(end);
  if (type >= TRANSFER_TYPES.first && type <= TRANSFER_TYPES.last) return REFUSAL.refused;
  return {
    bytes: message.subarray(HEADER_BYTES, end + 4),
    name: plainName(message.subarray(HEADER_BYTES, end)),
    isInternet: message.readUInt16BE(end + 2) === CLASS_INTERNET,
  };
}

/** The first question of a message, as bytes; undefined when the message has none. */
export function questionOf(message: Buffer): Buffer | undefined {
  if (message.length < HEADER_BYTES || message.readUInt16BE(4) < 1) return undefined;
  const end = endOfName(message);
  return end === undefined || end + 4 > message.length ? undefined : message.subarray(HEADER_BYTES, end + 4);
}

/** Where the name of the first question is over. */
function endOfName(message: Buffer): number | undefined {
  let at = HEADER_BYTES;
  for (let length = message[at]; length !== 0; length = message[at]) {
    // Past the end, or a pointer, which has no place in a question.
    if (length === undefined || length > LABEL_MAX_BYTES) return undefined;
    at += length + 1;
    if (at - HEADER_BYTES >= NAME_MAX_BYTES) return undefined;
  }
  return at + 1;
}

function plainName(bytes: Buffer): string {
  const labels: string[] = [];
  for (let at = 0, length = bytes[0] ?? 0; length > 0; length = bytes[at] ?? 0) {
    labels.push(bytes.toString("latin1", at + 1, at + 1 + length));
    at += length + 1;
  }
  return labels.every((label) => PLAIN_LABEL.test(label)) ? labels.join(".").toLowerCase() : "";
}

/** The answer that there is none, for this reason. */
export function refusalOf(message: Buffer, reason: number): Buffer {
  const question = questionOf(message) ?? Buffer.alloc(0);
  const header = Buffer.alloc(HEADER_BYTES);
  message.copy(header, 0, 0, 2);
  const kept = message.readUInt16BE(2) & (OPCODE | RECURSION_DESIRED);
  header.writeUInt16BE(IS_ANSWER | RECURSION_AVAILABLE | kept | reason, 2);
  header.writeUInt16BE(question.length > 0 ? 1 : 0, 4);
  return Buffer.concat([header, question]);
}

/**
 * The same question without anything that only looks like part of it: records and options that a resolver might pass
 * on would carry words of the sandbox to servers that nobody allowed.
 */
export function bareQuery(message: Buffer, question: DnsQuestion): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  const kept = message.readUInt16BE(2) & (RECURSION_DESIRED | SIGNATURES);
  message.copy(header, 0, 0, 2);
  header.writeUInt16BE(kept, 2);
  header.writeUInt16BE(1, 4);
  const extension = bareExtension(message, HEADER_BYTES + question.bytes.length);
  header.writeUInt16BE(extension.length > 0 ? 1 : 0, 10);
  return Buffer.concat([header, question.bytes, extension]);
}

/** How long an answer may be, and whether with signatures, as EDNS says it (RFC 6891); options are left out. */
function bareExtension(message: Buffer, at: number): Buffer {
  const isThere =
    message.readUInt32BE(6) === 0 &&
    message.readUInt16BE(10) === 1 &&
    message.length >= at + OPT_BYTES &&
    message[at] === 0 &&
    message.readUInt16BE(at + 1) === TYPE_OPT;
  if (!isThere) return Buffer.alloc(0);
  const extension = Buffer.alloc(OPT_BYTES);
  extension.writeUInt16BE(TYPE_OPT, 1);
  message.copy(extension, 3, at + 3, at + 5);
  extension.writeUInt16BE(message.readUInt16BE(at + 7) & DNSSEC_OK, 7);
  return extension;
}

export function withId(message: Buffer, id: number): Buffer {
  const copy = Buffer.from(message);
  copy.writeUInt16BE(id, 0);
  return copy;
}
