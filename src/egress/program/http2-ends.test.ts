import { expect } from "bun:test";
import { fuzzBytes } from "../../base/testing/fuzz.ts";
import { Http2Ends } from "./http2-ends.ts";

function frame(kind: number, flags: number, stream: number, length: number): Buffer {
  const head = Buffer.alloc(9 + length, 1);
  head.writeUIntBE(length, 0, 3);
  head[3] = kind;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return head;
}

fuzzBytes("the ended streams are the same for every split of the frames", {
  seeds: [
    Buffer.concat([frame(4, 1, 0, 0), frame(1, 5, 1, 30), frame(0, 0, 3, 100), frame(0, 1, 3, 9), frame(3, 0, 5, 4)]),
    Buffer.concat([frame(0, 9, 7, 20), frame(8, 1, 9, 4)]),
  ],
  check(bytes, random) {
    const ended = (pieces: readonly Buffer[]) => {
      const ends = new Http2Ends("server");
      for (const piece of pieces) ends.read(piece);
      return [1, 3, 5, 7, 9].map((stream) => ends.has(stream));
    };
    expect(ended(random.split(bytes))).toEqual(ended([bytes]));
  },
});
