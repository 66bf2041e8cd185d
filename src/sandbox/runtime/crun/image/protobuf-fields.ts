/**
 * A minimal protocol buffers codec: reads a few fields of CRIU's messages, replaces or writes some, and reads image
 * files, which consist of such messages.
 */

const VARINT = 0;
const EIGHT_BYTES = 1;
const DELIMITED = 2;
const FOUR_BYTES = 5;
/** Bytes of a varint of 64 bits. */
const VARINT_MAX_BYTES = 10;

/** An image file: eight bytes of magic, then messages, each after its length in four bytes. */
export const MAGIC_BYTES = 8;
export const LENGTH_BYTES = 4;

interface Field {
  number: number;
  from: number;
  to: number;
  /** The content of a length-delimited field: a string or nested message. */
  bytes?: Buffer;
  value?: number;
}

export function fieldsOf(message: Buffer): Field[] {
  const fields: Field[] = [];
  const reader = new VarintReader(message);
  while (reader.at < message.length) {
    const from = reader.at;
    const key = reader.next();
    const number = Math.floor(key / 8);
    const form = key % 8;
    const value = form === VARINT || form === DELIMITED ? reader.next() : undefined;
    if (form === VARINT) fields.push({ number, from, to: reader.at, value: value as number });
    else {
      const begin = reader.at;
      reader.at += form === DELIMITED ? (value as number) : fixedBytes(form);
      const to = reader.at;
      if (to > message.length) throw new Error("a message ends within a field");
      if (form === DELIMITED) fields.push({ number, from, to, bytes: message.subarray(begin, to) });
      else fields.push({ number, from, to });
    }
  }
  return fields;
}

function fixedBytes(form: number): number {
  if (form === EIGHT_BYTES) return 8;
  if (form === FOUR_BYTES) return 4;
  throw new Error(`a field of a message has the unknown form ${form}`);
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

export function withMessages(content: Buffer, change: (message: Buffer) => Buffer): Buffer {
  const messages = messagesIn(content).flatMap((message) => {
    const changed = change(message);
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32LE(changed.length);
    return [length, changed];
  });
  return Buffer.concat([content.subarray(0, MAGIC_BYTES), ...messages]);
}

export function numberIn(fields: readonly Field[], wanted: number): number | undefined {
  return fields.find(({ number }) => number === wanted)?.value;
}

/** The message with changed content in the fields of this number: nested messages or integers. */
export function withFields(message: Buffer, wanted: number, change: (content: Buffer) => Buffer): Buffer {
  const parts = fieldsOf(message).flatMap(({ number, from, to, bytes }) => {
    const whole = message.subarray(from, to);
    if (number !== wanted) return [whole];
    if (bytes === undefined) return [encodeVarint(wanted * 8 + VARINT), change(whole)];
    const changed = change(bytes);
    return [encodeVarint(wanted * 8 + DELIMITED), encodeVarint(changed.length), changed];
  });
  return Buffer.concat(parts);
}

/** Seven bits per byte, lowest first. Exact up to 2^53. */
export function encodeVarint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left >= 0x80; left = Math.floor(left / 0x80)) bytes.push((left % 0x80) + 0x80);
  return Buffer.from([...bytes, left]);
}

/** An image has tens of thousands of varints, so reading one allocates nothing. */
class VarintReader {
  at = 0;

  constructor(readonly message: Buffer) {}

  next(): number {
    const { message } = this;
    const last = Math.min(message.length, this.at + VARINT_MAX_BYTES);
    let value = 0;
    for (let weight = 1; this.at < last; weight *= 0x80) {
      const byte = message[this.at++] as number;
      value += (byte % 0x80) * weight;
      if (byte < 0x80) return value;
    }
    throw new Error("a message ends within a number, or has one without end");
  }
}
