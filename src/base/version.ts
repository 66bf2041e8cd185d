/** The version of Sandlot. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export function version(): string {
  const file = readFileSync(join(import.meta.dir, "../../package.json"), "utf8");
  return (JSON.parse(file) as { version: string }).version;
}
