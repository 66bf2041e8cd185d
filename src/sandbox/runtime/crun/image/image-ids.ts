/**
 * The range of user ids in a CRIU image: `userns-N.img` is one message with the lines of the two mapping tables. It is
 * the only image file with ids of the host; all others have the ids as seen inside.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../../../contract/fault.ts";
import { ID_COUNT, type IdRange } from "../../../../system/id-range.ts";
import { encodeVarint, fieldsOf, LENGTH_BYTES, MAGIC_BYTES, withFields, withMessages } from "./protobuf-fields.ts";

const NAME = /^userns-\d+\.img$/;

/** Field numbers: the tables for users and groups, and the fields of a line. */
const TABLES = [1, 2];
const INSIDE = 1;
const OUTSIDE = 2;
const COUNT = 3;

interface IdsFile {
  name: string;
  content: Buffer;
}

/** Throws Fault 422 when the image is not of a sandbox with one contiguous range. */
export function idsIn(images: string): IdRange & IdsFile {
  const [name, ...others] = readdirSync(images).filter((each) => NAME.test(each));
  if (name === undefined || others.length > 0) throw unfit("it has no user namespace, or several");
  const content = readFileSync(join(images, name));
  const lines = fieldsOf(messageIn(content)).filter(({ number }) => TABLES.includes(number));
  const firsts = new Set(lines.map(({ bytes }) => firstOf(bytes ?? Buffer.alloc(0))));
  const [first] = firsts;
  if (first === undefined || firsts.size > 1 || lines.length !== TABLES.length) throw unfit("its tables differ");
  return { first, name, content };
}

export function withIds(content: Buffer, { first }: IdRange): Buffer {
  const mapped = (line: Buffer) => withFields(line, OUTSIDE, () => encodeVarint(first));
  return withMessages(content, (message) => TABLES.reduce((part, table) => withFields(part, table, mapped), message));
}

function messageIn(content: Buffer): Buffer {
  const from = MAGIC_BYTES + LENGTH_BYTES;
  const end = from + content.readUInt32LE(MAGIC_BYTES);
  if (end !== content.length) throw unfit("its tables are cut off");
  return content.subarray(from, end);
}

function firstOf(line: Buffer): number {
  const fields = new Map(fieldsOf(line).map(({ number, value }) => [number, value]));
  const first = fields.get(OUTSIDE);
  if (first === undefined || fields.get(INSIDE) !== 0 || fields.get(COUNT) !== ID_COUNT) {
    throw unfit("it does not have one whole range");
  }
  return first;
}

function unfit(what: string): Fault {
  return new Fault(422, `the user ids of this memory image cannot be read: ${what}`);
}
