/** What one check of the doctor is about, and what it found. */
import type { Wall } from "../../contract/wall.ts";

export type Finding =
  | { status: "ok"; detail: string }
  /** Works, but `lost` does not. */
  | { status: "degraded"; detail: string; lost: string; fix: string }
  /** Not known: the check did not end in time. */
  | { status: "timeout"; detail: string; fix: string }
  | { status: "broken"; detail: string; fix: string };

/** Where the checks look. */
export interface DoctorOptions {
  dataFolder: string;
  cacheFolder: string;
  guestFolder: string;
  /** What sandboxes are kept behind, and the program runsc that the operator names, if any. */
  wall?: Wall;
  runsc?: string | undefined;
  /** What clients know the server by, and the operator's certificate for it, if any. */
  domain?: string;
  certificate?: { cert: string; key: string } | undefined;
  /** Private networks that are open, by the setting and by limits of teams. */
  privateNetworks?: readonly { whose: string; entries: readonly string[] }[];
}

export interface Check {
  name: string;
  /** What to do when it did not end in time, if not what helps any check. */
  timeoutFix?: string;
  /** Throws `Fault` 503 when it did not end in time. */
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

/** One line for each check, and a FIX line where something can be done. */
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
