/**
 * Encodes process output for the wire. The bytes equal those of the protocol library, in both encodings. Needed by the
 * benchmark row `output`; `src/guest/rpc/shortcut.ts` has the figures.
 */
import { GARBAGE_PER_MESSAGE_BYTES } from "../limits.ts";
import type { Codec } from "../rpc/shortcut.ts";
import { noteGarbage } from "../system/garbage.ts";

/** Envelopes of at least this size are written to memory that is reused. */
export const ENVELOPES_KEPT_MIN_BYTES = 32 * 1024;
/** Reused memory is released after this time without a large envelope, because a stream may be silent for hours. */
export const ENVELOPES_KEPT_MS = 500;

export type OutputKind = "stdout" | "stderr" | "pty";

export interface OutputPiece {
  kind: OutputKind;
  bytes: Uint8Array;
  /** The whole chunk, set on its last piece if this is the only listener: discard it once the piece was written. */
  whole?: Uint8Array;
}

const HEAD_BYTES = 5;
const LENGTH_DELIMITED = 2;
/** Maximum varint length of a piece's size and of the sizes of the fields around it. */
const VARINT_MAX_BYTES = 5;
/** Field numbers on the path to the bytes, from the outside in: event, data, kind. */
const EVENT = 1;
const DATA = 2;
const FIELDS: Record<OutputKind, number> = { stdout: 1, stderr: 2, pty: 3 };
const JSON_STARTS: Record<OutputKind, Buffer> = {
  stdout: jsonStart("stdout"),
  stderr: jsonStart("stderr"),
  pty: jsonStart("pty"),
};
const JSON_END = Buffer.from('"}}}');
const JSON_AROUND_MAX_BYTES = JSON_STARTS.stdout.length + JSON_END.length;
const NOTHING = Buffer.alloc(0);

/**
 * Writes the envelopes of one stream. Large ones reuse memory: with new memory for each, 128 MiB of output take 400 ms
 * of the guest's CPU time instead of 210.
 */
export class EnvelopeWriter {
  /** Two buffers in turn: one is written while the other is on its way to the client. */
  readonly #kept: [Buffer, Buffer] = [NOTHING, NOTHING];
  #releaseTimer: Timer | undefined;

  /** Overwrites the result of the call before the last one. */
  write(pieces: readonly OutputPiece[], codec: Codec): Uint8Array {
    const room = roomForAll(pieces, codec);
    if (room < ENVELOPES_KEPT_MIN_BYTES) {
      noteGarbage(room + GARBAGE_PER_MESSAGE_BYTES);
      return writeAll(Buffer.allocUnsafeSlow(room), pieces, codec);
    }
    clearTimeout(this.#releaseTimer);
    this.#releaseTimer = setTimeout(() => this.#releaseBuffers(), ENVELOPES_KEPT_MS);
    const [other, next] = this.#kept;
    const out = next.length < room ? Buffer.allocUnsafeSlow(room) : next;
    this.#kept[0] = out;
    this.#kept[1] = other;
    return writeAll(out, pieces, codec);
  }

  /** Runs after a burst of output; the stream may stay quiet for the rest of its life. */
  #releaseBuffers(): void {
    const [one, other] = this.#kept;
    this.#kept.fill(NOTHING);
    noteGarbage(one.length + other.length);
  }
}

/** Writes one envelope per piece, one after the other. */
function writeAll(out: Buffer, pieces: readonly OutputPiece[], codec: Codec): Uint8Array {
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

function roomForAll(pieces: readonly OutputPiece[], codec: Codec): number {
  let room = 0;
  for (const { bytes } of pieces) room += roomFor(bytes.length, codec);
  return room;
}

function roomFor(length: number, codec: Codec): number {
  if (codec === "json") return HEAD_BYTES + 4 * Math.ceil(length / 3) + JSON_AROUND_MAX_BYTES;
  return HEAD_BYTES + length + 3 * (1 + VARINT_MAX_BYTES);
}

function jsonStart(kind: OutputKind): Buffer {
  return Buffer.from(`{"event":{"data":{"${kind}":"`);
}

function writeJson(out: Buffer, start: number, { kind, bytes }: OutputPiece): number {
  const before = JSON_STARTS[kind];
  out.set(before, start);
  let at = start + before.length;
  at += out.write(bytes.toBase64(), at, "latin1");
  out.set(JSON_END, at);
  return at + JSON_END.length;
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

/** Writes the head of a field: its number and length. */
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
