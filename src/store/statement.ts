/** Statements with values, the same for every engine, and the interface of an engine. */

/** Types that both engines store alike. Booleans are 0 and 1, times are milliseconds, objects are JSON text. */
export type Value = string | number | null;
export type Row = Record<string, unknown>;

export interface Result {
  rows: Row[];
  /** Rows that the statement affected. */
  count: number;
}

export type Statement = (strings: TemplateStringsArray, ...values: (Value | SqlPart)[]) => Promise<Result>;

/** A part of a statement with its values, for a condition that several statements share. */
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
 * What a transaction survives once it is done: a crash of the machine, or only one of the server. The latter is written
 * without waiting for the disk, so a crash of the machine may lose its last moments.
 */
export type Durability = "machine" | "server";

export interface Engine {
  readonly name: "sqlite" | "postgres";
  sql: Statement;
  /** As `sql`, for changes that need only survive a crash of the server. */
  quick: Statement;
  /**
   * Runs `work` in one transaction. It must only use the statement it is given: a call of the engine's own `sql` from
   * inside would deadlock.
   */
  transaction<T>(work: (sql: Statement) => Promise<T>, durability?: Durability): Promise<T>;
  /** As `transaction`, for a change of tables: no other process changes tables meanwhile, and it may take long. */
  migration<T>(work: (sql: Statement) => Promise<T>): Promise<T>;
  hasTable(name: string): Promise<boolean>;
  /** The clock of the database, in milliseconds since 1970: the same for all servers that use it. */
  readonly clock: SqlPart;
  /** Calls `check` before every statement and transaction from now on, except before those of `unguarded`. */
  guard(check: () => void): void;
  readonly unguarded: Statement;
  /** Reserves disk space, so that the store stays writable for a while when the disk is full. */
  makeRoom(): Promise<void>;
  close(): Promise<void>;
}

/** Inserts the parts: a flat list of texts, and the values between them. */
export function joined(strings: readonly string[], values: readonly (Value | SqlPart)[]): SqlPart {
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
