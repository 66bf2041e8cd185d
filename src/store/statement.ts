/** What the tables are written in: statements with values, the same for every engine, and what an engine can do. */

/** What both engines store alike. Truth values are 0 and 1, times are milliseconds, objects are JSON text. */
export type Value = string | number | null;
export type Row = Record<string, unknown>;

export interface Result {
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
  /** The same for what need only outlast the server. */
  quick: Statement;
  /**
   * Runs `work` in one transaction. Everything it does must go through the statement it is given: a call to the
   * engine's own `sql` from inside would wait for the transaction that waits for it.
   */
  transaction<T>(work: (sql: Statement) => Promise<T>, outlasts?: Outlasts): Promise<T>;
  /** Takes room on the disk ahead, so that for a while the store can be written to when there is none left. */
  makeRoom(): Promise<void>;
  close(): Promise<void>;
}

/** Without parts: all pieces of text in a row, and the values between them. */
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
