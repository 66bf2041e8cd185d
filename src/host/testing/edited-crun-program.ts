/** `edited-crun-program.ts EDITS COMMAND…`: changes the bundle that crun is about to read, then runs crun. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { EDITS, isEdit } from "./spec-edits.ts";

const [edits = "", ...command] = process.argv.slice(2);
const bundle = command[command.indexOf("--bundle") + 1];
if (command.includes("create") && bundle !== undefined) {
  const path = join(bundle, "config.json");
  let spec = JSON.parse(readFileSync(path, "utf8"));
  for (const name of edits.split(",").filter(isEdit)) spec = EDITS[name](spec);
  writeFileSync(path, JSON.stringify(spec), { mode: 0o600 });
}
const { exitCode } = Bun.spawnSync(command, { stdio: ["ignore", "ignore", "inherit"], env: process.env });
process.exit(exitCode);
