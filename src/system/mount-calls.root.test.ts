/** Detached mounts of the real kernel. */
import { expect, test } from "bun:test";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { release, tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "./command.ts";
import { filesystemOptions, readOnlyView } from "./mount-calls.ts";

test("what is seen through a read-only view can be read and run, and not be changed, also by its owner", async () => {
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

test("options of a filesystem are those that the list of all mounts has, where the kernel tells them one by one", () => {
  const lines = readFileSync("/proc/thread-self/mountinfo", "utf8").trim().split("\n");
  const listed = new Map(lines.map((line) => [line.split(" ")[4] ?? "", line.split(" ").at(-1)?.split(",").sort()]));
  const [major = 0, minor = 0] = release().split(".").map(Number);
  const tells = major > 6 || (major === 6 && minor >= 11);
  for (const path of ["/", "/dev"]) {
    expect(
      filesystemOptions(path)
        ?.filter((option) => option !== "")
        .sort(),
    ).toEqual(tells ? listed.get(path) : undefined);
  }
  expect(filesystemOptions("/no/such/place")).toBeUndefined();
});
