import { expect, test } from "bun:test";
import { createIds } from "./ids.ts";

test("ids and secrets have the formats that clients check", () => {
  const ids = createIds();
  expect(ids.uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(ids.templateId()).toMatch(/^[a-z0-9]{20}$/);
  expect(ids.apiKey()).toMatch(/^e2b_[0-9a-f]{40}$/);
  expect(ids.accessToken()).toMatch(/^sk_e2b_[0-9a-f]{40}$/);
  expect(ids.runtimeToken()).toMatch(/^[0-9a-f]{64}$/);
  expect(ids.uuid()).not.toBe(ids.uuid());
});

test("random bytes that would make some characters likelier are thrown away", () => {
  const supply = [253, 35, 36];
  const ids = createIds((bytes) => bytes.fill(supply.shift() ?? 0));
  // 253 is beyond the last full round of the alphabet; 35 is its last character.
  expect(ids.templateId()).toBe("9".repeat(20));
  expect(ids.templateId()).toBe("a".repeat(20));
});
