/** What the operator allows a team. An absent member is no limit of the team's own. */
import { z } from "zod";
import { Fault } from "../contract/fault.ts";
import { INT32_MAX } from "../contract/limits.ts";

const teamLimits = z.strictObject({
  /** Sandboxes that may run at once. */
  sandboxes: z.int().min(1).optional(),
  /** How long one run may last. */
  runSeconds: z.int().min(1).max(INT32_MAX).optional(),
  /** Builds that may be under way at once. */
  builds: z.int().min(1).optional(),
  /** Requests each second: those that ask, and those that do something. Absent: as many as the server allows any. */
  reads: z.int().min(1).optional(),
  changes: z.int().min(1).optional(),
  /** Private networks that are open to its sandboxes, as the operator wrote them. Absent: those of the server. */
  private: z.array(z.string()).optional(),
  /** True: nothing may be started. */
  blocked: z.boolean().optional(),
});

export type TeamLimits = Readonly<z.output<typeof teamLimits>>;

/** Rather none of the team's calls than calls without limits, if what is stored is not understood. */
export function readLimits(stored: string, slug: string): TeamLimits {
  try {
    return teamLimits.parse(JSON.parse(stored));
  } catch (cause) {
    throw new Fault(500, `the stored limits of team "${slug}" cannot be read`, { cause });
  }
}
