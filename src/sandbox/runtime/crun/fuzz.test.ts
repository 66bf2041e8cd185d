/** Fuzzes checkpoint images, whose texts a sandbox chooses. */
import { expect } from "bun:test";
import { fuzzBytes } from "../../../base/testing/fuzz.ts";
import { fieldsOf, withFields } from "./image/protobuf-fields.ts";
import { nested, number } from "./testing/criu-image.ts";

fuzzBytes("a message is parsed into its fields, or rejected", {
  seeds: [
    Buffer.concat([number(1, 300), nested(3, number(1, 7), nested(6, Buffer.from("/data/file")))]),
    Buffer.concat([nested(3, Buffer.alloc(0)), Buffer.from([0x09, 1, 2, 3, 4, 5, 6, 7, 8, 0x15, 1, 2, 3, 4])]),
    Buffer.alloc(40, 0xff),
  ],
  check(message) {
    let fields: ReturnType<typeof fieldsOf>;
    try {
      fields = fieldsOf(message);
    } catch (refused) {
      expect((refused as Error).message).toMatch(/unknown form|ends within/);
      return;
    }
    expect(Buffer.concat(fields.map(({ from, to }) => message.subarray(from, to))).equals(message)).toBe(true);
    expect(withFields(message, 99, () => Buffer.from("changed")).length).toBeGreaterThanOrEqual(0);
    expect(withFields(message, 3, (content) => content).length).toBeLessThanOrEqual(message.length * 2 + 20);
  },
});
