import { expect, test } from "bun:test";
import { UNSENT_MAX_BYTES, UNSENT_PER_SANDBOX_MAX_BYTES, UnsentAnswers } from "./unsent-answers.ts";

test("unsent answers are limited for each sandbox and in all, until they are sent", () => {
  const unsent = new UnsentAnswers();
  expect(unsent.take("10.0.0.1", UNSENT_PER_SANDBOX_MAX_BYTES)).toBe(true);
  expect(unsent.take("10.0.0.1", 1)).toBe(false);
  const others = UNSENT_MAX_BYTES / UNSENT_PER_SANDBOX_MAX_BYTES - 1;
  for (let at = 0; at < others; at++) expect(unsent.take(`10.0.1.${at}`, UNSENT_PER_SANDBOX_MAX_BYTES)).toBe(true);
  expect(unsent.take("10.0.0.2", 1)).toBe(false);
  unsent.free("10.0.0.1", UNSENT_PER_SANDBOX_MAX_BYTES);
  expect([unsent.take("10.0.0.2", 1), unsent.take("10.0.0.1", 1)]).toEqual([true, true]);
});
