/** A check of the doctor and its result. */
import { readFileSync } from "node:fs";
import type { RuntimeName } from "../../contract/runtime-name.ts";

export type Finding =
  | { status: "ok"; detail: string }
  /** Works, except for `lost`. */
  | { status: "degraded"; detail: string; lost: string; fix: string }
  /** Unknown: the check timed out. */
  | { status: "timeout"; detail: string; fix: string }
  | { status: "broken"; detail: string; fix: string };

export interface DoctorOptions {
  dataFolder: string;
  cacheFolder: string;
  guestFolder: string;
  /** Isolation runtime, crun or runsc, and the operator's own runsc program, if any. */
  runtime?: RuntimeName;
  runsc?: string | undefined;
  /** The server's domain, and the operator's certificate for it, if any. */
  domain?: string;
  certificate?: { cert: string; key: string } | undefined;
  /** Percent of memory that stays available; 0 or undefined: none. */
  memoryReserve?: number;
  /** Teams whose sandboxes share memory, as text; undefined: none. */
  sharedMemory?: string | undefined;
  /** Why the secrets of teams cannot be used; undefined: they can. */
  secretsProblem?: string | undefined;
  /** Examines the database; undefined: SQLite, which needs nothing. */
  store?: (() => Promise<Finding>) | undefined;
  /** Private networks that are open, by the setting and by limits of teams. */
  privateNetworks?: readonly { whose: string; entries: readonly string[] }[];
}

export interface Check {
  name: string;
  /** Advice after a timeout, if the general advice does not fit. */
  timeoutFix?: string;
  /** Throws `Fault` 503 after a timeout. */
  run(): Promise<Finding>;
}

export function ok(detail: string): Finding {
  return { status: "ok", detail };
}

export function degraded(detail: string, lost: string, fix: string): Finding {
  return { status: "degraded", detail, lost, fix };
}

export function broken(detail: string, fix: string): Finding {
  return { status: "broken", detail, fix };
}

export function timeout(detail: string, fix: string): Finding {
  return { status: "timeout", detail, fix };
}

/** One line per check, and a FIX line where the operator can act. */
export function findingLines(name: string, finding: Finding): string[] {
  const head = `${finding.status.padEnd(8)} ${name}: ${finding.detail}`;
  switch (finding.status) {
    case "ok":
      return [head];
    case "degraded":
      return [`${head}; lost: ${finding.lost}`, `         FIX: ${finding.fix}`];
    case "timeout":
    case "broken":
      return [head, `         FIX: ${finding.fix}`];
  }
}

/** Empty for a file that cannot be read. */
export function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
}
