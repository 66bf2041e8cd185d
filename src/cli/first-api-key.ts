/** The API key that start-up shows: created at the very first start, and kept in a file that only root can read. */
import { readFileSync, writeFileSync } from "node:fs";
import { isApiKey } from "../control/access/keys.ts";
import type { Store } from "../store/store.ts";

/**
 * Writes a newly created key to the file, and returns the key in the file. Undefined: the operator has removed the
 * file, or the key was revoked and must not be shown.
 */
export async function firstApiKey(store: Store, file: string, made: string | undefined): Promise<string | undefined> {
  if (made !== undefined) writeFileSync(file, `${made}\n`, { mode: 0o600 });
  const kept = readKept(file);
  return kept !== undefined && (await isApiKey({ store }, kept)) ? kept : undefined;
}

function readKept(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return undefined;
  }
}
