/**
 * As much of protocol buffers as it takes to read a few fields of CRIU's messages, to replace one, and to write some;
 * and the files of a memory image, which consist of such messages.
 */

const VARINT = 0;
const EIGHT_BYTES = 1;
const DELIMITED = 2;
const FOUR_BYTES = 5;
/** Of 64 bits. */
const VARINT_MAX_BYTES = 10;

/** A file of an image: eight bytes, and then messages, each behind its length in four. */
export const MAGIC_BYTES = 8;
export const LENGTH_BYTES = 4;

interface Field {
  number: number;
  /** All of it, as it lies in the message. */
  whole: Buffer;
  /** Of what has a length: strings and messages within. */
  bytes?: Buffer;
  /** Of a whole number. */
  value?: number;
}

export function fieldsOf(message: Buffer): Field[] {
  const fields: Field[] = [];
  for (let at = 0; at < message.length; ) {
    const begin = at;
    const key = decodeVarint(message, at);
    const number = Math.floor(key.value / 8);
    switch (key.value % 8) {
      case VARINT: {
        const { value, end } = decodeVarint(message, key.end);
        at = end;
        fields.push({ number, whole: message.subarray(begin, at), value });
        break;
      }
      case DELIMITED: {
        const { value: length, end } = decodeVarint(message, key.end);
        at = end + length;
        fields.push({ number, whole: message.subarray(begin, at), bytes: message.subarray(end, at) });
        break;
      }
      case EIGHT_BYTES:
      case FOUR_BYTES:
        at = key.end + (key.value % 8 === EIGHT_BYTES ? 8 : 4);
        fields.push({ number, whole: message.subarray(begin, at) });
        break;
      default:
        throw new Error(`a field of a message has the unknown form ${key.value % 8}`);
    }
    if (at > message.length) throw new Error("a message ends within a field");
  }
  return fields;
}

export function messagesIn(content: Buffer): Buffer[] {
  const messages: Buffer[] = [];
  for (let at = MAGIC_BYTES; at < content.length; ) {
    const from = at + LENGTH_BYTES;
    at = from + content.readUInt32LE(at);
    messages.push(content.subarray(from, at));
  }
  return messages;
}

/** The whole number in the field with this number, if there is one. */
export function numberIn(fields: readonly Field[], wanted: number): number | undefined {
  return fields.find(({ number }) => number === wanted)?.value;
}

/** The message with other content in the fields of this number: all that is in a message within, or a whole number. */
export function withFields(message: Buffer, wanted: number, change: (content: Buffer) => Buffer): Buffer {
  const parts = fieldsOf(message).flatMap(({ number, whole, bytes }) => {
    if (number !== wanted) return [whole];
    if (bytes === undefined) return [encodeVarint(wanted * 8 + VARINT), change(whole)];
    const changed = change(bytes);
    return [encodeVarint(wanted * 8 + DELIMITED), encodeVarint(changed.length), changed];
  });
  return Buffer.concat(parts);
}

/** A whole number, or what has a length, as a field. */
export function encodeField(number: number, content: number | Buffer): Buffer {
  if (typeof content === "number") return Buffer.concat([encodeVarint(number * 8 + VARINT), encodeWhole(content)]);
  return Buffer.concat([encodeVarint(number * 8 + DELIMITED), encodeVarint(content.length), content]);
}

/** One below zero is what 64 bits make of it. */
function encodeWhole(value: number): Buffer {
  if (value >= 0) return encodeVarint(value);
  const bytes = Buffer.alloc(VARINT_MAX_BYTES);
  for (let at = 0, left = BigInt.asUintN(64, BigInt(value)); at < bytes.length; at++, left >>= 7n) {
    bytes[at] = Number(left & 0x7fn) + (at < bytes.length - 1 ? 0x80 : 0);
  }
  return bytes;
}

/** Seven bits in each byte, the lowest first. Exact up to 2^53. */
export function encodeVarint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left >= 0x80; left = Math.floor(left / 0x80)) bytes.push((left % 0x80) + 0x80);
  return Buffer.from([...bytes, left]);
}

function decodeVarint(message: Buffer, from: number): { value: number; end: number } {
  let value = 0;
  for (let at = from, weight = 1; at < Math.min(message.length, from + VARINT_MAX_BYTES); at++, weight *= 0x80) {
    const byte = message.readUInt8(at);
    value += (byte % 0x80) * weight;
    if (byte < 0x80) return { value, end: at + 1 };
  }
  throw new Error("a message ends within a number, or has one without end");
}
