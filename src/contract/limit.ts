/**
 * A user-visible limit, as data. Each module lists its own, from the numbers that it enforces, in `published-limits.ts`
 * or beside these numbers. `sandlot limits --all` and docs/limits.md show them, and tests/conventions/limit-tests.ts
 * names the test that reaches each one.
 */

export interface Limit {
  /** What is limited, in words unique to this limit. */
  name: string;
  /** The default. */
  value: string;
  /** What the limit applies to. */
  scope: "sandbox" | "process" | "team" | "user" | "address" | "request" | "connection" | "build" | "volume" | "server";
  /** What a client sees at the limit. */
  error: string;
  /** Where it is set; absent: not configurable. */
  setting?: string;
}

/** Limits as the rows of a table. */
export function limitRows(
  rows: readonly [scope: Limit["scope"], name: string, value: string | number, error: string, setting?: string][],
): Limit[] {
  return rows.map(([scope, name, value, error, setting]) => ({
    name,
    value: String(value),
    scope,
    error,
    ...(setting === undefined ? {} : { setting }),
  }));
}

export const MIB = 1024 ** 2;

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"] as const;

/** Readable: `64 MiB`. */
export function inBytes(bytes: number): string {
  let [amount, unit] = [bytes, 0];
  for (; amount % 1024 === 0 && amount > 0 && unit < UNITS.length - 1; unit++) amount /= 1024;
  return `${amount} ${UNITS[unit]}`;
}
