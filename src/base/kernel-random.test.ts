import { expect, test } from "bun:test";
import { kernelRandomBytes, kernelUuid } from "./kernel-random.ts";

test("ids are UUIDs of version 4 and differ", () => {
  const ids = Array.from({ length: 200 }, kernelUuid);
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(new Set(ids).size).toBe(ids.length);
  expect(kernelRandomBytes(33)).toHaveLength(33);
});
