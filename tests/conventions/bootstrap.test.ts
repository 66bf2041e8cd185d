/** The first commands in a fresh clone install npm packages once, however many start at the same time. */
import { afterAll, expect, test } from "bun:test";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROJECT } from "./source-files.ts";

const COMMANDS = 4;

const root = mkdtempSync(join(tmpdir(), "sandlot-bootstrap-"));
afterAll(() => rmSync(root, { recursive: true }));

test("commands that start at once install packages once, and all go on", async () => {
  const clone = join(root, "clone");
  mkdirSync(join(root, "bin"));
  cpSync(join(PROJECT, "bin"), join(clone, "bin"), { recursive: true });
  writeFileSync(join(clone, "package-lock.json"), "{}");
  // It installs no Bun, so each command ends with the error of a clone without it, which comes after the installation.
  const npm = join(root, "bin/npm");
  writeFileSync(npm, `#!/bin/sh\nmkdir "${root}/installed" || exit 1\nmkdir -p node_modules\nsleep 0.3\n`);
  chmodSync(npm, 0o755);
  const env = { PATH: `${join(root, "bin")}:${process.env.PATH}` };
  const argv = ["node", join(clone, "bin/sandlot"), "--version"];
  const commands = Array.from({ length: COMMANDS }, () => Bun.spawn(argv, { env, stdout: "ignore", stderr: "pipe" }));
  const reports = await Promise.all(commands.map(({ stderr }) => new Response(stderr).text()));
  expect(reports.filter((report) => report.includes("is not installed for"))).toHaveLength(COMMANDS);
  expect(reports.join("")).not.toContain("npm ci failed");
  expect(existsSync(join(clone, "node_modules/.sandlot-installed"))).toBe(true);
});
