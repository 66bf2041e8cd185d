/**
 * Changes of what may leave a sandbox while it runs. The host is told in between: a row is marked before, and no longer
 * after, so a start that finds the mark knows that the host may not do as the row says.
 */
import { type Statement, text } from "./engine.ts";
import { readSandbox, type Sandbox, type SandboxRun } from "./sandboxes.ts";

export function egressChangesIn(sql: Statement) {
  return {
    /** Marks a running sandbox. Undefined: it does not run any more, or its end has come. */
    async begin(run: SandboxRun, now: number): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET egress_unsettled = 1
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /**
     * The host does as these say. Whatever the run has come to since, it goes on with them, or is resumed with them.
     * Undefined: it is over.
     */
    async finish(run: SandboxRun, to: Pick<Sandbox, "network" | "allowInternetAccess">): Promise<Sandbox | undefined> {
      const internet = to.allowInternetAccess === null ? null : Number(to.allowInternetAccess);
      const { rows } = await sql`UPDATE sandboxes SET egress_unsettled = 0, network = ${JSON.stringify(to.network)},
          allow_internet_access = ${internet}
        WHERE id = ${run.id} AND state <> 'killing' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
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

    /** The host does as the row says. */
    async settle(run: SandboxRun): Promise<void> {
      await sql`UPDATE sandboxes SET egress_unsettled = 0
        WHERE id = ${run.id} AND execution_id = ${run.executionId}`;
    },
  };
}
