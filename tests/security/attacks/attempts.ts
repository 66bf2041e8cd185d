/** Runs the program of tests/security/attacks/inside in a sandbox, and returns which attempts succeeded. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Sandbox } from "e2b";
import { PROGRAM } from "../../../src/host/testing/spec-edits.ts";
import type { Open } from "./attack-table.ts";

const INSIDE = join(import.meta.dir, "inside");

/** How each attempt of each attack ended: "refused", "absent" or "open: …". */
export interface Found {
  /** Whether system calls were filtered. */
  filtered: boolean;
  found: Record<string, Record<string, string>>;
}

/** `words` must be found nowhere inside. */
export async function attack(sandbox: Sandbox, words: readonly string[]): Promise<Found> {
  const names = readdirSync(INSIDE).filter((name) => name.endsWith(".py"));
  const folder = dirname(PROGRAM);
  await sandbox.files.write(
    names.map((name) => ({ path: join(folder, name), data: readFileSync(join(INSIDE, name), "utf8") })),
  );
  const command = ["python3", "-B", PROGRAM, "-", ...words].join(" ");
  const { stdout } = await sandbox.commands.run(command, { user: "root", timeoutMs: 60_000 });
  return JSON.parse(stdout);
}

export function openIn({ found }: Found): Open {
  const open = Object.entries(found).map(([number, attempts]) => [
    number,
    Object.entries(attempts)
      .filter(([, outcome]) => outcome.startsWith("open"))
      .map(([attempt]) => attempt),
  ]);
  return Object.fromEntries(open.filter(([, attempts]) => attempts?.length !== 0));
}
