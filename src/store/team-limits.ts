/** Limits that the operator sets for a team. Absent: no limit of its own. */
import { z } from "zod";
import { Fault } from "../contract/fault.ts";
import { INT32_MAX } from "../contract/limits.ts";

const teamLimits = z.strictObject({
  /** Concurrent sandboxes. */
  sandboxes: z.int().min(1).optional(),
  /** Maximum length of one run. */
  runSeconds: z.int().min(1).max(INT32_MAX).optional(),
  /** Concurrent builds. */
  builds: z.int().min(1).optional(),
  /** Requests per second: GET requests, and others. Absent: the server's default. */
  reads: z.int().min(1).optional(),
  changes: z.int().min(1).optional(),
  /** Secrets, and versions of each that are kept. Absent: the server's default. */
  secrets: z.int().min(1).optional(),
  secretVersions: z.int().min(1).optional(),
  /** Private networks open to its sandboxes, as the operator wrote them. Absent: those of the server. */
  private: z.array(z.string()).optional(),
  /** Whether its sandboxes share memory with those of all other teams that do. Absent: as the server's setting says. */
  sharedMemory: z.boolean().optional(),
  /** True: the team may start nothing. */
  blocked: z.boolean().optional(),
});

export type TeamLimits = Readonly<z.output<typeof teamLimits>>;

/** If the stored limits cannot be read, the team's calls fail rather than run without limits. */
export function readLimits(stored: string, slug: string): TeamLimits {
  try {
    return teamLimits.parse(JSON.parse(stored));
  } catch (cause) {
    throw new Fault(500, `the stored limits of team "${slug}" cannot be read`, { cause });
  }
}
