import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startTicks } from "../system/start-ticks.ts";
import { hasUnrecorded, isAlive, type SandboxRecord, writeRecord } from "./sandbox-record.ts";

test("a process is identified by pid and start time", () => {
  const pidStartTicks = startTicks(process.pid) ?? "";
  expect(isAlive({ pid: process.pid, pidStartTicks })).toBe(true);
  expect(isAlive({ pid: process.pid, pidStartTicks: `${pidStartTicks}1` })).toBe(false);
});

test("an ended process is not alive, also as a zombie", async () => {
  const child = Bun.spawn(["sleep", "60"]);
  const record = { pid: child.pid, pidStartTicks: startTicks(child.pid) ?? "" };
  expect(isAlive(record)).toBe(true);
  child.kill("SIGKILL");
  await child.exited;
  expect(isAlive(record)).toBe(false);
});

// Otherwise every sandbox would be destroyed by a server that has as many files open as it may.
test("a process whose state cannot be read is not dead", () => {
  const unknown = () => {
    throw Object.assign(new Error("too many open files"), { code: "EMFILE" });
  };
  expect(isAlive({ pid: 1, pidStartTicks: "1" }, unknown)).toBe(true);
});

test("a sandbox that was being made when the server was killed has a folder and no record", () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-records-"));
  expect(hasUnrecorded(folder)).toBe(false);
  mkdirSync(join(folder, "made"));
  writeRecord(join(folder, "made"), { id: "made" } as SandboxRecord);
  expect(hasUnrecorded(folder)).toBe(false);
  mkdirSync(join(folder, "unfinished"));
  expect(hasUnrecorded(folder)).toBe(true);
  rmSync(folder, { recursive: true });
});
