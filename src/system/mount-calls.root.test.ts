/** Detached mounts of the real kernel. */
import { expect, test } from "bun:test";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "./command.ts";
import { readOnlyView } from "./mount-calls.ts";

test("files in a read-only view can be read and run, but not changed, even by their owner", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-view-"));
  const program = join(folder, "program");
  writeFileSync(program, "#!/bin/sh\necho done\n");
  chmodSync(program, 0o700);
  const view = readOnlyView(folder);
  expect(await run([join(view, "program")])).toBe("done\n");
  expect(() => writeFileSync(join(view, "program"), "")).toThrow("EROFS");
  expect(() => chmodSync(join(view, "program"), 0o777)).toThrow("EROFS");
  writeFileSync(program, "#!/bin/sh\necho changed\n");
  expect(readFileSync(join(view, "program"), "utf8")).toContain("changed");
  rmSync(folder, { recursive: true });
});
