/**
 * Changes of the egress rules of running sandboxes. A row is marked before the host call and unmarked after it, so a
 * start that finds the mark knows that the host may enforce other rules than the row says.
 */
import type { Statement } from "./engine.ts";
import { type Sandbox, type SandboxRun, sandboxes } from "./sandboxes.ts";

export function egressChangesIn(sql: Statement) {
  const { first, execute, texts } = sandboxes.over(sql);
  return {
    /** Marks a running sandbox. Undefined: it no longer runs, or its end has come. */
    begin: (run: SandboxRun, now: number) => first`UPDATE sandboxes SET egress_unsettled = 1
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`,

    /**
     * Records the rules that the host now enforces. The run continues or resumes with them, whatever its state.
     * Undefined: it is over.
     */
    async finish(run: SandboxRun, to: Pick<Sandbox, "network" | "allowInternetAccess">): Promise<Sandbox | undefined> {
      const internet = to.allowInternetAccess === null ? null : Number(to.allowInternetAccess);
      return first`UPDATE sandboxes SET egress_unsettled = 0, network = ${JSON.stringify(to.network)},
          allow_internet_access = ${internet}
        WHERE id = ${run.id} AND state <> 'killing' AND execution_id = ${run.executionId} RETURNING *`;
    },

    /** Running sandboxes that are marked. */
    unsettled: () => texts`SELECT id FROM sandboxes WHERE egress_unsettled = 1 AND state = 'running' ORDER BY id`,

    /** All running sandboxes of a team. */
    runningOf: (teamId: string) => texts`SELECT id FROM sandboxes
        WHERE team_id = ${teamId} AND state = 'running' ORDER BY id`,

    /** Unmarks the row: the host enforces its rules. */
    settle: (run: SandboxRun) => execute`UPDATE sandboxes SET egress_unsettled = 0
        WHERE id = ${run.id} AND execution_id = ${run.executionId}`,
  };
}
