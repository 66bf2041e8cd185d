/** Output of processes as the wire has it: the bytes that the protocol library would make of it, in both encodings. */
import type { Codec } from "../rpc/shortcut.ts";

export type OutputKind = "stdout" | "stderr" | "pty";

export interface OutputPiece {
  kind: OutputKind;
  bytes: Uint8Array;
}

const HEAD_BYTES = 5;
const LENGTH_DELIMITED = 2;
/** Of a length that a piece can have, and of what is around it. */
const VARINT_MAX_BYTES = 5;
/** The numbers of the fields that lead to the bytes, from the outside in: the event, its data, its kind. */
const EVENT = 1;
const DATA = 2;
const FIELDS: Record<OutputKind, number> = { stdout: 1, stderr: 2, pty: 3 };
const JSON_END = '"}}}';

/** An envelope for each piece, one behind the other. */
export function outputEnvelopes(pieces: readonly OutputPiece[], codec: Codec): Uint8Array {
  const room = pieces.reduce((sum, { bytes }) => sum + roomFor(bytes.length, codec), 0);
  const out = Buffer.allocUnsafeSlow(room);
  let at = 0;
  for (const piece of pieces) {
    const start = at + HEAD_BYTES;
    const end = codec === "json" ? writeJson(out, start, piece) : writeBinary(out, start, piece);
    out[at] = 0;
    out.writeUInt32BE(end - start, at + 1);
    at = end;
  }
  return out.subarray(0, at);
}

function roomFor(length: number, codec: Codec): number {
  if (codec === "json") return HEAD_BYTES + 4 * Math.ceil(length / 3) + jsonStart("stdout").length + JSON_END.length;
  return HEAD_BYTES + length + 3 * (1 + VARINT_MAX_BYTES);
}

function jsonStart(kind: OutputKind): string {
  return `{"event":{"data":{"${kind}":"`;
}

function writeJson(out: Buffer, start: number, { kind, bytes }: OutputPiece): number {
  const base64 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
  let at = start + out.write(jsonStart(kind), start, "latin1");
  at += out.write(base64, at, "latin1");
  return at + out.write(JSON_END, at, "latin1");
}

function writeBinary(out: Buffer, start: number, { kind, bytes }: OutputPiece): number {
  const inner = 1 + varintBytes(bytes.length) + bytes.length;
  const middle = 1 + varintBytes(inner) + inner;
  let at = writeField(out, start, EVENT, middle);
  at = writeField(out, at, DATA, inner);
  at = writeField(out, at, FIELDS[kind], bytes.length);
  out.set(bytes, at);
  return at + bytes.length;
}

/** The head of a field: its number, and how many bytes follow. */
function writeField(out: Buffer, start: number, field: number, length: number): number {
  let at = start;
  out[at++] = (field << 3) | LENGTH_DELIMITED;
  let left = length;
  for (; left > 127; left >>>= 7) out[at++] = (left & 127) | 128;
  out[at++] = left;
  return at;
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let left = value; left > 127; left >>>= 7) bytes++;
  return bytes;
}
