/** Output in both encodings, beside what the protocol library makes of it: not a byte may differ. */
import { describe, expect, test } from "bun:test";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { StartResponseSchema } from "../../contract/runtime/wire/process/process_pb.ts";
import { envelopeOf } from "../testing/running-guest.ts";
import { type OutputPiece, outputEnvelopes } from "./output-envelopes.ts";

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

  test("several pieces follow each other, also those that are parts of a larger buffer", () => {
    const whole = crypto.getRandomValues(new Uint8Array(1000));
    const pieces = KINDS.map((kind, at) => ({ kind, bytes: whole.subarray(at * 300 + 1, at * 300 + 250) }));
    const expected = Buffer.concat(pieces.map((piece) => ofLibrary(piece, codec)));
    expect(Buffer.from(outputEnvelopes(pieces, codec)).equals(expected)).toBe(true);
  });
});
