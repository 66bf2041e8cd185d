import { expect, test } from "bun:test";
import { OPEN_FILES_WANTED, openFilesMax } from "./open-files.ts";

test("the limit is that of this process, up to the wanted number", () => {
  const { stdout } = Bun.spawnSync(["/bin/sh", "-c", "ulimit -H -n"]);
  const hard = stdout.toString().trim();
  const may = hard === "unlimited" ? OPEN_FILES_WANTED : Number(hard);
  expect(openFilesMax()).toBe(Math.min(OPEN_FILES_WANTED, may));
  expect(openFilesMax()).toBe(Math.min(OPEN_FILES_WANTED, may));
});
