/** The API key that start-up shows: created at the very first start, and kept in a file that only root can read. */
import { readFileSync, writeFileSync } from "node:fs";
import { isApiKey } from "../../control/access/keys.ts";
import type { Store } from "../../store/store.ts";

/** Writes a new key to the file, and returns the file's key, unless it was removed or revoked. */
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
