/**
 * SQLite in a file, called directly: each statement is compiled once, and is complete when the call returns. A driver
 * in between would compile it every time, which takes several times as long as most statements.
 */
import { type Statement as Compiled, Database } from "bun:sqlite";
import { chmodSync, closeSync, existsSync, openSync } from "node:fs";
import { SerialQueue } from "../base/serial-queue.ts";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import {
  type Durability,
  type Engine,
  joined,
  type Result,
  type Row,
  type Statement,
  sqlPart,
  type Value,
} from "./statement.ts";

/** Space that the store reserves in its files for when the disk is full. */
const STORE_ROOM_BYTES = 4 * 1024 * 1024;
export const SQLITE_BUSY_MS = scaled(5_000);
/** There are about half as many statements. */
Database.MAX_QUERY_CACHE_SIZE = 400;

const DURABLE = "PRAGMA synchronous = FULL";
const QUICK = "PRAGMA synchronous = NORMAL";
const READS = /^\s*SELECT\s/i;

export function openSqlite(path: string): Engine {
  closeToOthers(path);
  const db = new Database(path, { create: true, readwrite: true });
  try {
    for (const setting of ["journal_mode = WAL", `busy_timeout = ${SQLITE_BUSY_MS}`, "foreign_keys = ON"]) {
      db.run(`PRAGMA ${setting}`);
    }
    db.run(DURABLE);
  } catch (cause) {
    db.close();
    throw explained(cause);
  }
  return new Sqlite(db);
}

class Sqlite implements Engine {
  readonly name = "sqlite";
  /**
   * There is one connection, and a statement during a transaction would become part of it and vanish with its rollback.
   * So all work is serialised.
   */
  readonly #turns = new SerialQueue();
  /** The durability set on the connection; initially as opened. */
  #durability: Durability = "machine";

  constructor(private readonly db: Database) {}

  readonly sql: Statement = this.#statementThat("machine");
  readonly quick: Statement = this.#statementThat("server");
  readonly unguarded = this.sql;
  readonly clock = sqlPart`CAST(unixepoch('subsec') * 1000 AS INTEGER)`;

  #statementThat(durability: Durability): Statement {
    return async (strings, ...values) => {
      const ask = () => {
        // A read needs no durability.
        if (!READS.test(strings[0] ?? "")) this.#writeAs(durability);
        return this.#ask(strings, values);
      };
      return this.#turns.isIdle ? ask() : await this.#turns.run(async () => ask());
    };
  }

  transaction<T>(work: (sql: Statement) => Promise<T>, durability: Durability = "machine"): Promise<T> {
    return this.#turns.run(async () => {
      this.#writeAs(durability);
      return await this.#transact(work);
    });
  }

  migration<T>(work: (sql: Statement) => Promise<T>): Promise<T> {
    return this.transaction(work);
  }

  async hasTable(name: string): Promise<boolean> {
    return (await this.sql`SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ${name}`).rows.length > 0;
  }

  guard(): never {
    throw new Fault(500, "SQLite has one server, which needs no permission");
  }

  /** Sets the pragma only on a change: most transactions follow one of the same kind. */
  #writeAs(durability: Durability): void {
    if (durability === this.#durability) return;
    this.#do(durability === "server" ? QUICK : DURABLE);
    this.#durability = durability;
  }

  makeRoom(): Promise<void> {
    return this.#turns.run(async () => {
      // Its pages pass through the write-ahead log, which is reused from then on, and become free pages of the file.
      this.#writeAs("machine");
      this.#do("DROP TABLE IF EXISTS room");
      this.#do(`CREATE TABLE room AS SELECT zeroblob(${STORE_ROOM_BYTES}) AS bytes`);
      this.#do("DROP TABLE room");
    });
  }

  close(): Promise<void> {
    return this.#turns.run(async () => {
      this.db.close();
    });
  }

  async #transact<T>(work: (sql: Statement) => Promise<T>): Promise<T> {
    // IMMEDIATE, because a transaction that reads first and writes later cannot wait for another process.
    this.#do("BEGIN IMMEDIATE");
    let isOver = false;
    try {
      const done = await work(async (strings, ...values) => {
        if (isOver) throw new Fault(500, "a statement came after the end of its transaction");
        return this.#ask(strings, values);
      });
      isOver = true;
      this.#do("COMMIT");
      return done;
    } catch (cause) {
      isOver = true;
      // Some failures, such as a full disk, have already rolled it back.
      if (this.db.inTransaction) this.#do("ROLLBACK");
      throw cause;
    }
  }

  #ask(strings: TemplateStringsArray, values: Parameters<Statement>[1][]): Result {
    const whole = joined(strings, values);
    try {
      return answerOf(this.db, whole.strings.join("?"), whole.values);
    } catch (error) {
      throw explained(error);
    }
  }

  #do(text: string): void {
    try {
      this.db.run(text);
    } catch (error) {
      throw explained(error);
    }
  }
}

/** Bun keeps the most recently used statements compiled. */
function answerOf(db: Database, text: string, values: readonly Value[]): Result {
  // A pragma takes effect when it is compiled, and schema changes run once, so neither is kept.
  if (!/^\s*(?:SELECT|INSERT|UPDATE|DELETE)\s/i.test(text)) {
    using once = db.prepare<Row, Value[]>(text);
    return run(once, values);
  }
  return run(db.query<Row, Value[]>(text), values);
}

function run(compiled: Compiled<Row, Value[]>, values: readonly Value[]): Result {
  if (compiled.columnNames.length === 0) return { rows: [], count: compiled.run(...values).changes };
  const rows = compiled.all(...values);
  return { rows, count: rows.length };
}

/** The database holds tokens, so only its owner may read it. SQLite gives its log files the mode of the database. */
function closeToOthers(path: string): void {
  // Only a new file is opened here: closing a file that SQLite has open in the same process drops its locks.
  if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
  for (const file of [path, `${path}-wal`, `${path}-shm`]) if (existsSync(file)) chmodSync(file, 0o600);
}

/** Another process, such as a backup or a shell, may lock the file for longer than the timeout. */
function explained(error: unknown): unknown {
  const isBusy = (error as { code?: unknown } | null)?.code === "SQLITE_BUSY";
  return isBusy ? new Fault(503, "the store is locked by another process; try again", { cause: error }) : error;
}
