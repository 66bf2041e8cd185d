/**
 * Tables as data: a column is declared once, by name and kind. The type of a row's object, the columns and values of an
 * INSERT, and the conversion of rows to objects follow from that. Statements stay SQL.
 */
import { integer, resultsOf, text } from "./engine.ts";
import { type Row, SqlPart, type Statement, type Value } from "./statement.ts";

/** How both engines store a value. */
interface Kind<T> {
  read(stored: unknown, row: Row): T;
  write(value: T): Value;
  /** If it is not the property's name in snake case. */
  column?: string;
}

// biome-ignore lint/suspicious/noExplicitAny: a table has columns of every kind
type Columns = Record<string, Kind<any>>;

/** The object of a row. */
export type Stored<T> = T extends Table<infer C> ? { [K in keyof C]: C[K] extends Kind<infer V> ? V : never } : never;

export const TEXT: Kind<string> = { read: text, write: (value) => value };
export const INTEGER: Kind<number> = { read: integer, write: (value) => value };
export const BOOLEAN: Kind<boolean> = { read: (stored) => integer(stored) === 1, write: Number };

/** One of a few words, which only the store writes. */
export function word<T extends string>(): Kind<T> {
  return { read: (stored) => text(stored) as T, write: (value) => value };
}

export function json<T>(): Kind<T> {
  return { read: (stored) => JSON.parse(text(stored)), write: (value) => JSON.stringify(value) };
}

export function orNull<T>(kind: Kind<T>): Kind<T | null> {
  return {
    read: (stored, row) => (stored === null ? null : kind.read(stored, row)),
    write: (value) => (value === null ? null : kind.write(value)),
  };
}

export class Table<C extends Columns> {
  readonly #columns: readonly { property: string; name: string; kind: C[string] }[];

  constructor(columns: C) {
    this.#columns = Object.entries(columns).map(([property, kind]) => {
      const name = kind.column ?? property.replace(/[A-Z]+/g, (capitals) => `_${capitals.toLowerCase()}`);
      return { property, name, kind: kind as C[string] };
    });
  }

  /** The names of the columns, for a SELECT that leaves others out. */
  get names(): SqlPart {
    return new SqlPart([this.#columns.map(({ name }) => name).join(", ")], []);
  }

  /** Columns and values, as they follow INSERT INTO and the table's name. */
  values(...objects: readonly Stored<Table<C>>[]): SqlPart {
    const values = objects.flatMap((object) =>
      this.#columns.map(({ property, kind }) => kind.write(object[property as keyof typeof object])),
    );
    const ends = values.map((_, nth) => ((nth + 1) % this.#columns.length === 0 ? "), (" : ", "));
    const [names = ""] = this.names.strings;
    return new SqlPart([`(${names}) VALUES (`, ...ends.slice(0, -1), ")"], values);
  }

  read(row: Row): Stored<Table<C>> {
    const entries = this.#columns.map(({ property, name, kind }) => [property, kind.read(row[name], row)]);
    return Object.fromEntries(entries) as Stored<Table<C>>;
  }

  /** Statements by their result; rows are read as one object, undefined without a row, or as all. */
  over(sql: Statement) {
    const all = async (...statement: Parameters<Statement>): Promise<Stored<Table<C>>[]> =>
      (await sql(...statement)).rows.map((row) => this.read(row));
    const first = async (...statement: Parameters<Statement>) => (await all(...statement))[0];
    return { first, all, ...resultsOf(sql) };
  }
}
