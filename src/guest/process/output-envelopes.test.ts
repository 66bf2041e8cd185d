/** Output in both encodings equals the protocol library's, byte for byte. */
import { describe, expect, jest, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { StartResponseSchema } from "../../contract/runtime/wire/process/process_pb.ts";
import { envelopeOf } from "../testing/running-guest.ts";
import { ENVELOPES_KEPT_MIN_BYTES, ENVELOPES_KEPT_MS, EnvelopeWriter, type OutputPiece } from "./output-envelopes.ts";

const outputEnvelopes = (pieces: readonly OutputPiece[], codec: "json" | "proto") =>
  new EnvelopeWriter().write(pieces, codec);

function ofLibrary({ kind, bytes }: OutputPiece, codec: "json" | "proto"): Uint8Array {
  const message = create(StartResponseSchema, {
    event: { event: { case: "data", value: { output: { case: kind, value: bytes } } } },
  });
  const payload =
    codec === "json" ? Buffer.from(toJsonString(StartResponseSchema, message)) : toBinary(StartResponseSchema, message);
  return envelopeOf(payload);
}

/** Around every length at which the form changes: of base64 by thirds, of lengths at 7, 14 and 21 bits. */
const LENGTHS = [0, 1, 2, 3, 4, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 16_370, 16_379, 16_383, 16_384];
const KINDS = ["stdout", "stderr", "pty"] as const;

describe.each(["json", "proto"] as const)("in %s", (codec) => {
  test.each(KINDS)("%s is written as by the library, whatever its length", (kind) => {
    for (const length of [...LENGTHS, 32 * 1024, 2 ** 21 + 1]) {
      const bytes = Uint8Array.from({ length }, (_, at) => at * 7 + length);
      const ours = Buffer.from(outputEnvelopes([{ kind, bytes }], codec));
      expect(ours.equals(Buffer.from(ofLibrary({ kind, bytes }, codec)))).toBe(true);
    }
  });

  test("several pieces are written in order, also parts of a larger buffer", () => {
    const whole = crypto.getRandomValues(new Uint8Array(1000));
    const pieces = KINDS.map((kind, at) => ({ kind, bytes: whole.subarray(at * 300 + 1, at * 300 + 250) }));
    const expected = Buffer.concat(pieces.map((piece) => ofLibrary(piece, codec)));
    expect(Buffer.from(outputEnvelopes(pieces, codec)).equals(expected)).toBe(true);
  });

  test("a writer writes the same, and does not overwrite its last envelope", () => {
    const writer = new EnvelopeWriter();
    let last: { written: Uint8Array; expected: Uint8Array } | undefined;
    for (const length of [70_000, 1, 100_000, 90_000, 3, 120_000, 120_000, 50_000]) {
      const pieces = [{ kind: "stdout" as const, bytes: randomBytes(length) }];
      const now = { written: writer.write(pieces, codec), expected: outputEnvelopes(pieces, codec) };
      for (const { written, expected } of [now, last ?? now]) expect(Buffer.compare(written, expected)).toBe(0);
      last = now;
    }
  });

  test("a writer keeps memory for long pieces, until none was written for a while", () => {
    jest.useFakeTimers();
    try {
      const writer = new EnvelopeWriter();
      const long = [{ kind: "pty" as const, bytes: new Uint8Array(ENVELOPES_KEPT_MIN_BYTES) }];
      const memory = Array.from({ length: 6 }, () => writer.write(long, codec).buffer);
      expect(new Set(memory).size).toBe(2);
      jest.advanceTimersByTime(ENVELOPES_KEPT_MS - 1);
      expect(memory).toContain(writer.write(long, codec).buffer);
      // What is short is no reason to keep it.
      jest.advanceTimersByTime(ENVELOPES_KEPT_MS - 1);
      writer.write([{ kind: "pty", bytes: new Uint8Array(1) }], codec);
      jest.advanceTimersByTime(1);
      expect(memory).not.toContain(writer.write(long, codec).buffer);
    } finally {
      jest.useRealTimers();
    }
  });
});
