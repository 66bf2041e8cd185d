import { expect, test } from "bun:test";
import { createIds } from "./ids.ts";

test("ids and secrets have the formats that clients check", () => {
  const ids = createIds();
  expect(ids.uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(ids.templateId()).toMatch(/^[a-z0-9]{20}$/);
  expect(ids.apiKey()).toMatch(/^e2b_[0-9a-f]{40}$/);
  expect(ids.accessToken()).toMatch(/^sk_e2b_[0-9a-f]{40}$/);
  expect(ids.sandboxToken()).toMatch(/^[0-9a-f]{64}$/);
  expect(ids.uuid()).not.toBe(ids.uuid());
});
