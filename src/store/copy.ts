/** Copies of a store for a backup. */
import { Database } from "bun:sqlite";
import { closeSync, openSync } from "node:fs";
import { migrations } from "./migrations.ts";
import { SQLITE_BUSY_MS } from "./sqlite.ts";

/** The newest version of the tables that this program reads. */
export const STORE_VERSION = migrations.length;

/**
 * Copies the database, as it is at one moment, into a new file, also while a server changes it. Returns the version of
 * its tables.
 */
export function copyStore(path: string, target: string): number {
  using db = new Database(path, { readonly: true });
  db.run(`PRAGMA busy_timeout = ${SQLITE_BUSY_MS}`);
  // SQLite accepts an empty file, and the copy holds tokens.
  closeSync(openSync(target, "wx", 0o600));
  db.run("VACUUM INTO ?", [target]);
  const row = db.query<{ version: number }, []>("SELECT MAX(version) AS version FROM schema_versions").get();
  return Number(row?.version);
}
