/**
 * Which database has the rows of a data folder: SQLite in it, or Postgres. The folder remembers it, so that no start
 * with another setting finds nothing and removes the sandboxes of the earlier one.
 */
import { existsSync, renameSync, writeFileSync } from "node:fs";
import { Fault } from "../contract/fault.ts";
import type { Node } from "../store/nodes.ts";
import { DataFolder, readText } from "../system/data-folder.ts";
import type { Config } from "./settings/config.ts";
import type { PostgresStore } from "./settings/postgres-url.ts";

export type StoreSettings = Pick<Config, "dataFolder" | "postgres">;

/** The database in Postgres that belongs to a data folder. */
interface StoreNote {
  /** `HOST:PORT/DATABASE`, for messages. */
  postgres: string;
  /** Of the data folder, in the database. */
  identity: string;
  /** Whether the database has this identity. */
  isJoined: boolean;
}

/** Whether a server has run on this data folder. */
export function hasStore({ dataFolder }: StoreSettings): boolean {
  if (!DataFolder.isAt(dataFolder)) return false;
  const data = new DataFolder(dataFolder);
  return existsSync(data.storeFile) || readStoreNote(data)?.isJoined === true;
}

/** The URL for `openStore`. Throws Fault 409 if the data folder belongs to another kind of database. */
export function storeUrl({ dataFolder, postgres }: StoreSettings): string {
  const data = new DataFolder(dataFolder);
  const note = readStoreNote(data);
  if (postgres === undefined) {
    if (note?.isJoined !== true) return `sqlite://${data.storeFile}`;
    throw new Fault(
      409,
      `the sandboxes of ${dataFolder} are in the Postgres database ${note.postgres}, and SANDLOT_STORE is not set. FIX: ` +
        `SANDLOT_STORE=postgres://USER:PASSWORD@${note.postgres} (docs/postgres.md)`,
    );
  }
  if (!existsSync(data.storeFile)) return postgres.url;
  throw new Fault(
    409,
    `the sandboxes of ${dataFolder} are in ${data.storeFile}, and SANDLOT_STORE names Postgres. FIX: unset SANDLOT_STORE, ` +
      "or choose an empty data folder with SANDLOT_DATA; rows are not moved between the two yet",
  );
}

/** Throws Fault 409 if the database with these servers is not that of the data folder. */
export function requireOwnDatabase(
  { dataFolder }: StoreSettings,
  { shown }: PostgresStore,
  nodes: readonly Node[],
): void {
  const note = readStoreNote(new DataFolder(dataFolder));
  if (note?.isJoined !== true || nodes.some(({ identity }) => identity === note.identity)) return;
  throw new Fault(
    409,
    `the database ${shown} knows nothing of the sandboxes of ${dataFolder}, which were in ${note.postgres}. FIX: ` +
      "set SANDLOT_STORE to that database, or to a copy of it",
  );
}

export function readStoreNote(data: DataFolder): StoreNote | undefined {
  const text = readText(data.storeNote);
  if (text === undefined) return undefined;
  try {
    const { postgres, identity, isJoined } = JSON.parse(text) as Partial<StoreNote>;
    if (typeof postgres === "string" && typeof identity === "string" && typeof isJoined === "boolean") {
      return { postgres, identity, isJoined };
    }
  } catch {
    // Said below.
  }
  throw new Fault(500, `${data.storeNote} is damaged. FIX: restore it from a copy of the data folder`);
}

export function writeStoreNote(data: DataFolder, note: StoreNote): void {
  const written = `${data.storeNote}.${crypto.randomUUID()}`;
  writeFileSync(written, `${JSON.stringify(note)}\n`, { mode: 0o600, flush: true });
  renameSync(written, data.storeNote);
}
