/** One interface for both databases: SQLite in a file (sqlite.ts), or Postgres (postgres.ts). */
import { Fault } from "../contract/fault.ts";
import { openPostgres } from "./postgres.ts";
import { openSqlite } from "./sqlite.ts";
import type { Engine, Statement } from "./statement.ts";

export { type Durability, type Engine, type Row, type SqlPart, type Statement, sqlPart } from "./statement.ts";

/** `sqlite:///path/to/file` or `postgres://user@host/database`. */
export async function openEngine(url: string): Promise<Engine> {
  if (url.startsWith("sqlite://")) return openSqlite(url.slice("sqlite://".length));
  if (url.startsWith("postgres://") || url.startsWith("postgresql://")) return openPostgres(url);
  const scheme = url.split(":", 1)[0];
  throw new Fault(500, `unknown database scheme "${scheme}"; use sqlite://… or postgres://…`);
}

/** Postgres returns 64-bit integers as text, SQLite as numbers. */
export function integer(value: unknown): number {
  const number = Number(value);
  if (value === null || !Number.isSafeInteger(number)) throw new Fault(500, "a stored integer cannot be read");
  return number;
}

export function integerOrNull(value: unknown): number | null {
  return value === null ? null : integer(value);
}

export function text(value: unknown): string {
  if (typeof value !== "string") throw new Fault(500, "a stored text cannot be read");
  return value;
}

export function textOrNull(value: unknown): string | null {
  return value === null ? null : text(value);
}

/** Statements by what their callers need of the result. */
export function resultsOf(sql: Statement) {
  type Arguments = Parameters<Statement>;
  return {
    execute: async (...query: Arguments): Promise<void> => void (await sql(...query)),
    /** The number of affected rows. */
    count: async (...query: Arguments) => (await sql(...query)).count,
    /** Whether a row was affected. */
    changed: async (...query: Arguments) => (await sql(...query)).count > 0,
    /** The only value. */
    number: async (...query: Arguments) => integer(Object.values((await sql(...query)).rows[0] ?? {})[0]),
    /** The only column. */
    texts: async (...query: Arguments) => (await sql(...query)).rows.map((row) => text(Object.values(row)[0])),
  };
}
