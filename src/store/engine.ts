/** One interface for both databases: SQLite in a file (sqlite.ts), or Postgres. */
import { SQL } from "bun";
import { Fault } from "../contract/fault.ts";
import { openSqlite } from "./sqlite.ts";
import { type Engine, joined, type Row, type Statement } from "./statement.ts";

export { type Durability, type Engine, type Row, type SqlPart, type Statement, sqlPart } from "./statement.ts";

const POSTGRES_CONNECTIONS_MAX = 10;

/** `sqlite:///path/to/file` or `postgres://user@host/database`. */
export async function openEngine(url: string): Promise<Engine> {
  if (url.startsWith("sqlite://")) return openSqlite(url.slice("sqlite://".length));
  if (url.startsWith("postgres://") || url.startsWith("postgresql://")) return openPostgres(url);
  const scheme = url.split(":", 1)[0];
  throw new Fault(500, `unknown database scheme "${scheme}"; use sqlite://… or postgres://…`);
}

async function openPostgres(url: string): Promise<Engine> {
  const db = new SQL(url, { max: POSTGRES_CONNECTIONS_MAX });
  await db.connect();
  const transaction: Engine["transaction"] = (work, durability) =>
    db.begin(async (tx) => {
      if (durability === "server") await tx.unsafe("SET LOCAL synchronous_commit = off");
      return await work(statementOn(tx));
    });
  return {
    name: "postgres",
    sql: statementOn(db),
    quick: (strings, ...values) => transaction((sql) => sql(strings, ...values), "server"),
    transaction,
    // The database server manages its own disk.
    makeRoom: async () => undefined,
    close: () => db.close(),
  };
}

function statementOn(db: SQL): Statement {
  return async (strings, ...values) => {
    const whole = joined(strings, values);
    // A template without parts is passed on as the same object, which the driver recognises.
    const template = whole.strings === strings ? strings : templateOf(whole.strings);
    const answer: Row[] & { count?: number | null } = await db(template, ...whole.values);
    return { rows: [...answer], count: answer.count ?? 0 };
  };
}

/** The driver accepts SQL only from a template, which it recognises by `raw`. */
function templateOf(strings: readonly string[]): TemplateStringsArray {
  return Object.defineProperty([...strings], "raw", { value: strings }) as unknown as TemplateStringsArray;
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
