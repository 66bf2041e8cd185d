import { expect, test } from "bun:test";
import { appendFileSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfTest } from "../../../../base/testing/test-folder.ts";
import { until } from "../../../../base/testing/until.ts";
import { Fault } from "../../../../contract/fault.ts";
import { TOOL_LOG_MAX_BYTES } from "../../../limits.ts";
import { ImageWatch } from "./image-watch.ts";

const folder = folderOfTest("image-watch");
const log = join(folder, "dump.log");
const BOUND = { folder, log, maxBytes: 1000, maxMs: 60_000 };

/** Watches until it stops the writer, and returns the reason. */
async function stopped(maxBytes: number, requireRoom: () => void = () => undefined, maxMs = 60_000) {
  const stop = Promise.withResolvers<void>();
  using watch = new ImageWatch({ folder, log, maxBytes, maxMs, requireRoom, stop: async () => stop.resolve() });
  await stop.promise;
  return watch.fault;
}

function write(name: string, bytes: number): void {
  writeFileSync(join(folder, name), "");
  truncateSync(join(folder, name), bytes);
}

test("a dump that writes more than its limit is stopped, with the reason", async () => {
  for (const name of ["pages-1.img", "pages-2.img", "ghost-file-1.img"]) write(name, 400);
  const fault = await stopped(1000);
  expect(fault?.status).toBe(422);
  expect(fault?.message).toContain("memory: false");
});

test("a dump is stopped when the disk is full", async () => {
  const fault = await stopped(1000, () => {
    throw new Fault(507, "full");
  });
  expect(fault?.status).toBe(507);
});

test("a dump that takes too long is stopped", async () => {
  const fault = await stopped(1000, undefined, 100);
  expect([fault?.status, fault?.message]).toEqual([422, expect.stringContaining("within 1 s")]);
});

test("a dump within its limits goes on", async () => {
  write("pages-1.img", 1000);
  const looks = Promise.withResolvers<void>();
  let stops = 0;
  using watch = new ImageWatch({ ...BOUND, requireRoom: looks.resolve, stop: async () => void stops++ });
  await looks.promise;
  expect([stops, watch.fault]).toEqual([0, undefined]);
});

test("an endless log is truncated, without disturbing its writer", async () => {
  write("dump.log", 2 * TOOL_LOG_MAX_BYTES + 1);
  let stops = 0;
  using watch = new ImageWatch({ ...BOUND, requireRoom: () => undefined, stop: async () => void stops++ });
  await until("the log is begun anew", () => statSync(log).size === 0);
  appendFileSync(log, "the end");
  expect([readFileSync(log, "utf8"), stops, watch.fault]).toEqual(["the end", 0, undefined]);
});
