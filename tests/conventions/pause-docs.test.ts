/** docs/pause.md lists what a pause keeps; each row is a test, and each test is a row. */
import { expect, test } from "bun:test";
import { availableParallelism } from "node:os";
import { CHECKPOINTS_AT_ONCE_MAX } from "../../src/sandbox/checkpointing.ts";
import { DELETED_FILE_MAX_BYTES } from "../../src/sandbox/runtime/crun/criu.ts";
import { TERMINAL_WRITE_MAX_BYTES } from "../../src/sandbox/runtime/crun/image/image-terminals.ts";
import { browsers } from "../workloads/browsers.ts";
import { sharings } from "../workloads/copy-state.ts";
import { holdings } from "../workloads/process-state.ts";
import { workloads } from "../workloads/workloads.ts";
import { tableRows } from "./markdown.ts";
import { readText } from "./source-files.ts";

const page = readText("docs/pause.md");

test("docs/pause.md has every workload", () => {
  const rows = [...workloads, ...browsers].map(({ what, fate }) => ({ "What runs": what, Result: fate }));
  expect(tableRows(page, ["What runs", "Result"])).toEqual(rows);
});

test("docs/pause.md has every resource of a process", () => {
  const rows = holdings.map(({ what, fate }) => ({ "What a process has": what, Result: fate }));
  expect(tableRows(page, ["What a process has", "Result"])).toEqual(rows);
});

test("docs/pause.md has what a copy shares", () => {
  const rows = sharings.map(({ what, inCopy }) => ({ What: what, "In a copy": inCopy }));
  expect(tableRows(page, ["What", "In a copy"])).toEqual(rows);
});

test("docs/pause.md has the limits of the code", () => {
  expect(DELETED_FILE_MAX_BYTES).toBe(1024 ** 3);
  expect(TERMINAL_WRITE_MAX_BYTES).toBe(8 * 1024);
  expect(CHECKPOINTS_AT_ONCE_MAX).toBe(Math.max(2, availableParallelism()));
});
