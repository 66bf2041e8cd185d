/** The version of Sandlot that runs. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

// Read once at the start: an upgrade replaces the file while the old server still runs.
const text = readFileSync(join(import.meta.dir, "../../package.json"), "utf8");
const { version: running } = JSON.parse(text) as { version: string };

export function version(): string {
  return running;
}
