/**
 * A limit that somebody can run into, as data. Each room lists its own, from the numbers that it enforces, in
 * `published-limits.ts`, or with these numbers where they are few; `sandlot limits --all` and docs/limits.md show them,
 * and tests/conventions/limit-tests.ts names for each the test that reaches it.
 */

export interface Limit {
  /** What is bounded, in words that no other limit has. */
  name: string;
  /** How much there is of it unless somebody says otherwise. */
  value: string;
  /** Who shares it. */
  scope: "sandbox" | "process" | "team" | "user" | "address" | "request" | "connection" | "build" | "volume" | "server";
  /** What whoever has reached it notices. */
  error: string;
  /** Where it is set; absent if it is not. */
  setting?: string;
}

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"] as const;

/** As a person writes it: `64 MiB`. */
export function inBytes(bytes: number): string {
  let [amount, unit] = [bytes, 0];
  for (; amount % 1024 === 0 && amount > 0 && unit < UNITS.length - 1; unit++) amount /= 1024;
  return `${amount} ${UNITS[unit]}`;
}
