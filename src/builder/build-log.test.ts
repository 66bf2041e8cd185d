/** The log of a build: entries in order, in batches, and output up to the log's limit. */
import { expect, test } from "bun:test";
import { ManualClock } from "../base/testing/manual-clock.ts";
import type { BuildLogEntry } from "../contract/internal/host.ts";
import { BUILD_LOG_GATHER_BYTES, BUILD_LOG_GATHER_MS, BuildLog } from "./build-log.ts";

function logWith(maxBytes: number) {
  const clock = new ManualClock(1_000);
  const reported: (readonly BuildLogEntry[])[] = [];
  return { clock, reported, log: new BuildLog((entries) => reported.push(entries), maxBytes, clock) };
}

test("entries are batched for a moment and sent in order", async () => {
  const { clock, reported, log } = logWith(1_000);
  log.say("info", null, "one");
  await log.output("1").take(new TextEncoder().encode("two\n"));
  expect(reported).toEqual([]);
  await clock.advance(BUILD_LOG_GATHER_MS, async () => undefined);
  log.say("debug", "2", "three");
  log.flush();
  log.flush();
  expect(reported).toEqual([
    [
      { at: 1_000, level: "info", message: "one", step: null },
      { at: 1_000, level: "info", message: "two", step: "1" },
    ],
    [{ at: 1_000 + BUILD_LOG_GATHER_MS, level: "debug", message: "three", step: "2" }],
  ]);
});

test("a large amount of output is sent at once", () => {
  const { reported, log } = logWith(1_000);
  log.say("info", null, "x".repeat(BUILD_LOG_GATHER_BYTES));
  expect(reported.length).toBe(1);
});

test("output beyond the bound is dropped with one note; the build's own messages are kept", async () => {
  const { reported, log } = logWith(300);
  const output = log.output("1");
  for (let round = 0; round < 5; round++) await output.take(new TextEncoder().encode(`${"x".repeat(100)}\n`));
  await log.output("2").take(new TextEncoder().encode("more\n"));
  log.say("error", "2", "it failed");
  log.flush();
  expect(reported.flat().map(({ level, message }) => `${level} ${message.slice(0, 20)}`)).toEqual([
    `info ${"x".repeat(20)}`,
    `info ${"x".repeat(20)}`,
    "warn The log has 300 byte",
    "error it failed",
  ]);
  expect(output.end()).toEndWith("x");
});
