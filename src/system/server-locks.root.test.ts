/** Locks shared by all servers: one holder at a time, although each removes the lock file after use. */
import { expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../base/testing/test-folder.ts";
import { run } from "./command.ts";
import { lockOfAllServers, noteOfAllServers, takeLockOfAllServers } from "./data-folder.ts";

const PROGRAM = join(import.meta.dir, "testing/counting.ts");
const [PROCESSES, TIMES] = [4, 300];
const folder = folderOfFile("locks");

// Guards against counting a lock whose file has been removed: some of the numbers are then lost.
test("concurrent processes hold a lock one after the other, and leave no file", async () => {
  const [lock, file] = [`counting-${process.pid}`, join(folder, "number")];
  writeFileSync(file, "0");
  const count = () => run([process.execPath, PROGRAM, lock, file, String(TIMES)]);
  await Promise.all(Array.from({ length: PROCESSES }, count));
  expect(Number(readFileSync(file, "utf8"))).toBe(PROCESSES * TIMES);
  expect(existsSync(noteOfAllServers(`${lock}.lock`))).toBe(false);
});

test("a lock without waiting is taken when it is free, and released afterwards", () => {
  const lock = `taken-${process.pid}`;
  {
    using _held = lockOfAllServers(lock);
    expect(takeLockOfAllServers(lock)).toBeUndefined();
  }
  {
    using taken = takeLockOfAllServers(lock);
    expect(taken).toBeDefined();
  }
  expect(existsSync(noteOfAllServers(`${lock}.lock`))).toBe(false);
});
