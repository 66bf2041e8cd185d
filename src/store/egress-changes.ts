/**
 * Changes of the egress rules of running sandboxes. A row is marked before the host call and unmarked after it, so a
 * start that finds the mark knows that the host may enforce other rules than the row says.
 */
import { type Statement, text } from "./engine.ts";
import { type Sandbox, type SandboxRun, sandboxes } from "./sandboxes.ts";

export function egressChangesIn(sql: Statement) {
  const { first } = sandboxes.over(sql);
  return {
    /** Marks a running sandbox. Undefined: it no longer runs, or its end has come. */
    async begin(run: SandboxRun, now: number): Promise<Sandbox | undefined> {
      return first`UPDATE sandboxes SET egress_unsettled = 1
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`;
    },

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
    async unsettled(): Promise<string[]> {
      const { rows } = await sql`SELECT id FROM sandboxes WHERE egress_unsettled = 1 AND state = 'running' ORDER BY id`;
      return rows.map((row) => text(row.id));
    },

    /** All running sandboxes of a team. */
    async runningOf(teamId: string): Promise<string[]> {
      const { rows } = await sql`SELECT id FROM sandboxes WHERE team_id = ${teamId} AND state = 'running' ORDER BY id`;
      return rows.map((row) => text(row.id));
    },

    /** Unmarks the row: the host enforces its rules. */
    async settle(run: SandboxRun): Promise<void> {
      await sql`UPDATE sandboxes SET egress_unsettled = 0
        WHERE id = ${run.id} AND execution_id = ${run.executionId}`;
    },
  };
}
