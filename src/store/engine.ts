/**
 * The two databases behind one small door: SQLite in a file, or Postgres. Whatever differs between them is in this
 * file.
 */
import { chmodSync, closeSync, existsSync, openSync } from "node:fs";
import { SQL } from "bun";
import { Fault } from "../contract/fault.ts";
import { OneAtATime } from "../work/one-at-a-time.ts";
import { POSTGRES_CONNECTIONS_MAX, SQLITE_BUSY_MS, STORE_ROOM_BYTES } from "./limits.ts";

/** What both engines store alike. Truth values are 0 and 1, times are milliseconds, objects are JSON text. */
type Value = string | number | null;
export type Row = Record<string, unknown>;

interface Result {
  rows: Row[];
  /** Rows that the statement touched. */
  count: number;
}

export type Statement = (strings: TemplateStringsArray, ...values: (Value | SqlPart)[]) => Promise<Result>;

/** A piece of a statement with its values, for a condition that several statements share. */
export class SqlPart {
  constructor(
    readonly strings: readonly string[],
    readonly values: readonly Value[],
  ) {}
}

export function sqlPart(strings: TemplateStringsArray, ...values: (Value | SqlPart)[]): SqlPart {
  return joined(strings, values);
}

/**
 * What a transaction outlasts once it is done. What is only to outlast the server is written without a round to the
 * disk; a crash of the machine may take the last moments of it.
 */
export type Outlasts = "machine" | "server";

export interface Engine {
  readonly name: "sqlite" | "postgres";
  sql: Statement;
  /**
   * Runs `work` in one transaction. Everything it does must go through the statement it is given: a call to the
   * engine's own `sql` from inside would wait for the transaction that waits for it.
   */
  transaction<T>(work: (sql: Statement) => Promise<T>, outlasts?: Outlasts): Promise<T>;
  /** Takes room on the disk ahead, so that for a while the store can be written to when there is none left. */
  makeRoom(): Promise<void>;
  close(): Promise<void>;
}

/** `sqlite:///path/to/file` or `postgres://user@host/database`. */
export async function openEngine(url: string): Promise<Engine> {
  if (url.startsWith("sqlite://")) return openSqlite(url);
  if (url.startsWith("postgres://") || url.startsWith("postgresql://")) return openPostgres(url);
  const scheme = url.split(":", 1)[0];
  throw new Fault(500, `unknown database scheme "${scheme}"; use sqlite://… or postgres://…`);
}

const DURABLE = "PRAGMA synchronous = FULL";

async function openSqlite(url: string): Promise<Engine> {
  closeToOthers(url.slice("sqlite://".length));
  const db = new SQL(url, { adapter: "sqlite", create: true });
  try {
    await db.unsafe("PRAGMA journal_mode = WAL");
    await db.unsafe(`PRAGMA busy_timeout = ${SQLITE_BUSY_MS}`);
    await db.unsafe(DURABLE);
    await db.unsafe("PRAGMA foreign_keys = ON");
  } catch (cause) {
    await db.close();
    throw cause;
  }

  // Bun keeps one SQLite connection. A statement sent while a transaction is open would become part of that
  // transaction, and vanish with its rollback. So everything takes its turn.
  const turns = new OneAtATime();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> =>
    turns.run(work).catch((error: unknown) => {
      throw explained(error);
    });
  const direct = statementOn(db);
  return {
    name: "sqlite",
    sql: (strings, ...values) => inTurn(() => direct(strings, ...values)),
    transaction: (work, outlasts) =>
      inTurn(async () => {
        // IMMEDIATE, because a transaction that reads first and writes later cannot wait for another process to finish.
        const done = () => db.begin("IMMEDIATE", (tx) => work(statementOn(tx)));
        if (outlasts !== "server") return await done();
        await db.unsafe("PRAGMA synchronous = NORMAL");
        try {
          return await done();
        } finally {
          await db.unsafe(DURABLE);
        }
      }),
    makeRoom: () =>
      inTurn(async () => {
        // Its pages go through the log, which is written over and over from then on, and are free afterwards in the
        // file itself.
        await db.unsafe("DROP TABLE IF EXISTS room");
        await db.unsafe(`CREATE TABLE room AS SELECT zeroblob(${STORE_ROOM_BYTES}) AS bytes`);
        await db.unsafe("DROP TABLE room");
      }),
    close: () => inTurn(() => db.close()),
  };
}

/** Tokens are in it. SQLite gives its log and the log's index the mode that the database has when they are made. */
function closeToOthers(path: string): void {
  // Only a new one is opened: whoever closes a file that SQLite has open in the same process takes its locks away.
  if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
  for (const file of [path, `${path}-wal`, `${path}-shm`]) if (existsSync(file)) chmodSync(file, 0o600);
}

/** Somebody else, such as a backup or a shell, may hold the file for longer than is waited for. */
function explained(error: unknown): unknown {
  const isBusy = (error as { code?: unknown } | null)?.code === "SQLITE_BUSY";
  return isBusy ? new Fault(503, "the store is locked by another process; try again", { cause: error }) : error;
}

async function openPostgres(url: string): Promise<Engine> {
  const db = new SQL(url, { max: POSTGRES_CONNECTIONS_MAX });
  await db.connect();
  return {
    name: "postgres",
    sql: statementOn(db),
    transaction: (work, outlasts) =>
      db.begin(async (tx) => {
        if (outlasts === "server") await tx.unsafe("SET LOCAL synchronous_commit = off");
        return await work(statementOn(tx));
      }),
    // The disk is the database server's business.
    makeRoom: async () => undefined,
    close: () => db.close(),
  };
}

function statementOn(db: SQL): Statement {
  return async (strings, ...values) => {
    const whole = joined(strings, values);
    // A template of one piece stays the object that the driver knows.
    const template = whole.strings === strings ? strings : templateOf(whole.strings);
    const answer: Row[] & { count?: number | null } = await db(template, ...whole.values);
    return { rows: [...answer], count: answer.count ?? 0 };
  };
}

function joined(strings: readonly string[], values: readonly (Value | SqlPart)[]): SqlPart {
  if (!values.some((value) => value instanceof SqlPart)) return new SqlPart(strings, values as Value[]);
  const texts = [strings[0] ?? ""];
  const flat: Value[] = [];
  const goOn = (text: string) => texts.push(`${texts.pop()}${text}`);
  for (const [nth, value] of values.entries()) {
    const after = strings[nth + 1] ?? "";
    if (value instanceof SqlPart) {
      const [first = "", ...rest] = value.strings;
      goOn(first);
      texts.push(...rest);
      flat.push(...value.values);
      goOn(after);
    } else {
      flat.push(value);
      texts.push(after);
    }
  }
  return new SqlPart(texts, flat);
}

/** The driver takes text for SQL only from a template, which it knows by `raw`. */
function templateOf(strings: readonly string[]): TemplateStringsArray {
  return Object.defineProperty([...strings], "raw", { value: strings }) as unknown as TemplateStringsArray;
}

/** Postgres gives 64-bit integers as text, SQLite as numbers. */
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
