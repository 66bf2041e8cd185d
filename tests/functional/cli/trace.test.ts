/** `sandlot trace` runs every operation it can trace and shows where the time went. */
import { beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { TRACED } from "../../../bench/trace/options.ts";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { run } from "../../../src/system/command.ts";

const PROGRAM = join(import.meta.dir, "../../../src/cli/main.ts");
const TRACE_MS = 240_000;
const HEAD = ["server", "workers", "runtime", "helpers", "sandboxes"];

/** One table for each, in the order of `TRACED`. */
let tables: string[] = [];

beforeAll(async () => {
  const { SANDLOT_DATA: _, ...env } = serverEnv("");
  const output = await run([process.execPath, PROGRAM, "trace", ...TRACED], { timeoutMs: TRACE_MS, env });
  tables = output.trim().split("\n\n");
});

/** The figures of all lines of this kind, added up by their column. */
function figuresOf(table: string, kind: RegExp): Record<string, number> {
  const lines = table.split("\n");
  const head = lines[1] ?? "";
  const cell = (line: string, title: string) => {
    const end = head.indexOf(title) + title.length;
    return Number(line.slice(end - "wall ms".length - 1, end));
  };
  const chosen = lines.filter((line) => kind.test(line));
  const sum = (title: string) => chosen.reduce((total, line) => total + cell(line, title), 0);
  return Object.fromEntries(["wall ms", ...HEAD].map((title) => [title, sum(title)]));
}

describe("the steps of", () => {
  const steps: Record<(typeof TRACED)[number], string[]> = {
    create: [
      "POST /v2/sandboxes",
      "host: create",
      "boot",
      "disk",
      "mount worker: reflink, disk, overlay, tmpfs",
      "guest: until it has its settings",
    ],
    exec: ["edge: connect", "edge: wait for the response", "edge: forward the response"],
    fork: ["host: snapshot", "CRIU dump", "host: create", "CRIU restore"],
    pause: ["host: pause", "CRIU dump", "fsync of the checkpoint", "remove"],
    resume: ["host: resume", "disk: a copy", "CRIU restore", "guest: until it has its settings"],
  };
  // A sandbox booted for a caller receives its settings with the first request.
  test("create contain one request to the guest", () => {
    expect(tables[TRACED.indexOf("create")]).not.toContain(" guest: settings ");
  });

  for (const [at, kind] of TRACED.entries()) {
    test(`${kind} are shown with their times`, () => {
      const table = tables[at] ?? "";
      const found = steps[kind].filter((name) => table.includes(`  ${name} `));
      expect(found).toEqual(steps[kind]);
      const whole = figuresOf(table, /^the client/);
      const sum = figuresOf(table, /^sum of the steps/);
      // The edge may notice the end of its step only after the client, which is not in that sum then.
      const used = figuresOf(table, /^ {2}\S/);
      expect(sum["wall ms"]).toBeGreaterThan(0);
      expect(sum["wall ms"]).toBeLessThanOrEqual((whole["wall ms"] ?? 0) + 5);
      expect(used.server).toBeGreaterThan(0);
      // Bash, or a guest that boots or is copied.
      if (kind !== "pause") expect(used.sandboxes).toBeGreaterThan(1);
      if (kind !== "exec") expect(used.helpers).toBeGreaterThan(1);
      expect(table).toMatch(/processor time: [\d.]+ ms in steps, [\d.]+ ms of the client; [\d.]+ ms elsewhere/);
    });
  }
});
