import { expect, test } from "bun:test";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../../base/testing/test-folder.ts";
import { loadConfig } from "../../settings/config.ts";
import { logs } from "./logs.ts";

const folder = folderOfFile("logs");
const read = (source: string) => logs(loadConfig({}), { source, level: "info", request: undefined });

test("a folder and a missing file are named in the error", async () => {
  await expect(read(folder)).rejects.toThrow(`${folder} is a folder. FIX: name a file in it`);
  await expect(read(join(folder, "none"))).rejects.toThrow(`there is no file ${join(folder, "none")}`);
});

test("the exit code is that of journalctl", async () => {
  const { PATH } = process.env;
  const journalctl = join(folder, "journalctl");
  writeFileSync(journalctl, "#!/bin/sh\nexit 7\n");
  chmodSync(journalctl, 0o755);
  process.env.PATH = `${folder}:${PATH}`;
  try {
    expect(await read("journal")).toBe(7);
  } finally {
    process.env.PATH = PATH;
  }
});
