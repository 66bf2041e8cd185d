/** `npm run limits`: regenerates the table in docs/limits.md. The text around it is written by hand. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { limitTable } from "../../src/cli/commands/limit-table.ts";
import { PROJECT, readText } from "./source-files.ts";

const PAGE = "docs/limits.md";
const TABLE = /^\| Of a .*(?:\n\|.*)*/m;

export function withTable(page: string): string {
  return page.replace(TABLE, () => limitTable());
}

if (import.meta.main) writeFileSync(join(PROJECT, PAGE), withTable(readText(PAGE)));
