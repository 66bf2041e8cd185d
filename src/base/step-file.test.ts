/** Steps are written to their file line by line, up to the file's size limit. */
import { afterEach, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stepsInto } from "./step-file.ts";
import { recordSteps, recordsUsage, step } from "./steps.ts";
import { untilTrue } from "./testing/until.ts";

const folder = mkdtempSync(join(tmpdir(), "steps-"));
afterEach(() => {
  recordSteps(undefined);
  rmSync(folder, { recursive: true, force: true });
});

test("steps are written until the file is full", async () => {
  const file = join(folder, "steps");
  recordSteps({ read: () => ({ server: 1 }), write: stepsInto(file, { writeEveryMs: 1, maxBytes: 300 }) });
  for (let made = 0; recordsUsage(); made++) {
    step(`step ${made}`, () => undefined);
    await Bun.sleep(2);
  }
  const lines = readFileSync(file, "utf8").trim().split("\n");
  expect(lines.map((line) => JSON.parse(line).name)).toEqual(lines.map((_, at) => `step ${at}`));
  expect(lines.length).toBeGreaterThan(1);
  expect(statSync(file).size).toBeLessThan(600);
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

test("a file that cannot be written to ends the recording, not the server", async () => {
  recordSteps({ read: () => ({}), write: stepsInto(join(folder, "none", "x"), { writeEveryMs: 1, maxBytes: 300 }) });
  step("one", () => undefined);
  await untilTrue(() => !recordsUsage());
});
