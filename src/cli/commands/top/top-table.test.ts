import { expect, test } from "bun:test";
import type { AdminSandbox } from "../../server/admin/server-status.ts";
import { filtered, headLine, lineOf, rowsOf, sorted } from "./top-table.ts";

const SANDBOX: AdminSandbox = {
  id: "i00000000000000000001",
  team: "default",
  templateId: "sandlotbase000000000",
  alias: "base",
  state: "running",
  startedAt: 0,
  endAt: 1,
  cpuCount: 2,
  memoryMB: 1024,
  usage: { cpuUsedMs: 100, memUsed: 60 * 1024 ** 2, memCache: 4 * 1024 ** 2, diskUsed: 1024 ** 3, diskTotal: 2 },
  savedBytes: undefined,
};
const at = (atMs: number, ...sandboxes: Partial<AdminSandbox>[]) => ({
  atMs,
  sandboxes: sandboxes.map((each) => ({ ...SANDBOX, ...each })),
});
const usage = (cpuUsedMs: number) => ({ usage: { memUsed: 1, memCache: 0, diskUsed: 2, diskTotal: 3, cpuUsedMs } });

test("processor time is the percentage between two samples", () => {
  const [row] = rowsOf(at(1_000, usage(100)), at(3_000, usage(1_100)));
  expect(row?.cpu).toBe(50);
  expect(rowsOf(undefined, at(3_000, usage(1_100)))[0]?.cpu).toBeUndefined();
  expect(rowsOf(at(1_000, usage(9_000)), at(3_000, usage(10)))[0]?.cpu).toBe(0);
});

test("a line has id, template, team, state, age, processor, memory and disk", () => {
  const [row] = rowsOf(at(0, usage(0)), at(3_720_000, {}));
  const words = [SANDBOX.id, "base", "default", "running", "1h02m", "0.0", "64M", "1.0G", "-"];
  expect(row && lineOf(row).split(/ +/)).toEqual(words);
  expect(headLine().split(/ +/)).toHaveLength(words.length);
});

test("a name with control characters or of great length cannot change the terminal or the table", () => {
  const [row] = rowsOf(undefined, at(0, { alias: `\x1b[2J\u202e${"x".repeat(500)}` }));
  const text = row && lineOf(row);
  expect(text).toContain("?[2J?xxx");
  expect(text?.length).toBeLessThan(120);
});

test("rows are sorted by the largest number or the first text, and filtered by any text", () => {
  const now = at(
    1,
    { id: "a", team: "z", startedAt: 1 },
    { id: "b", team: "y", usage: undefined },
    { id: "c", team: "x" },
  );
  const rows = rowsOf(undefined, now);
  const ids = (of: typeof rows) => of.map(({ id }) => id).join("");
  expect(ids(sorted(rows, "team"))).toBe("cba");
  expect(ids(sorted(rows, "memory"))).toBe("acb");
  expect(ids(sorted(rows, "age"))).toBe("bca");
  expect(ids(filtered(rows, "Y"))).toBe("b");
  expect(ids(filtered(rows, "base"))).toBe("abc");
});
