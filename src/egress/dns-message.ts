/**
 * Reads a sandbox's DNS message (RFC 1035) without trusting it. A message is one question that the policy can match by
 * its name, or it gets a refusal or no reply at all.
 */
const HEADER_BYTES = 12;
const NAME_MAX_BYTES = 255;
const LABEL_MAX_BYTES = 63;
/** The characters of a host name's label. Elsewhere a dot, a NUL or a space in a label could be misread. */
const PLAIN_LABEL = /^[a-z0-9_-]+$/i;

const IS_ANSWER = 0x8000;
const OPCODE = 0x7800;
const RECURSION_DESIRED = 0x0100;
const RECURSION_AVAILABLE = 0x0080;
/** The DNSSEC flags: the client understands signatures, and checks them itself. */
const SIGNATURES = 0x0030;
const CLASS_INTERNET = 1;
const TYPE_OPT = 41;
const OPT_BYTES = 11;
const DNSSEC_OK = 0x8000;
/** Types that request whole zones and similar: no job for a resolver. */
const TRANSFER_TYPES = { first: 249, last: 254 } as const;

export const REFUSAL = { malformed: 1, unknownOperation: 4, refused: 5 } as const;

export interface DnsQuestion {
  /** Name, type and class as they stand in the message. */
  bytes: Buffer;
  /** Empty if it is not a host name: no rule matches that. */
  name: string;
  isInternet: boolean;
}

/** Undefined: send no reply, because the message may itself be a response. A number: reject with this code. */
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

function endOfName(message: Buffer): number | undefined {
  let at = HEADER_BYTES;
  for (let length = message[at]; length !== 0; length = message[at]) {
    // Past the end, or a compression pointer, which questions must not contain.
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

/** An empty response with this error code. */
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
 * The same question without extra records and options. A resolver might forward them and so carry data of the sandbox
 * to servers that its policy does not allow.
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

/** The EDNS record (RFC 6891) with the response size and the DNSSEC flag only; options are dropped. */
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
