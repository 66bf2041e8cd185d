/** Removes rows of a deleted team in small steps: one transaction with all of them would hold up every other team. */
import { resultsOf, type Statement } from "./engine.ts";

export function teamLeftoversIn(sql: Statement) {
  const { count, execute } = resultsOf(sql);

  /** Each removes at most so many rows of one kind. Their order matters: metrics are found through events. */
  const kinds: readonly ((teamId: string, limit: number) => Promise<number>)[] = [
    (teamId, limit) => count`DELETE FROM webhook_deliveries WHERE id IN
        (SELECT webhook_deliveries.id FROM webhook_deliveries JOIN webhooks ON webhooks.id = webhook_id
          WHERE webhooks.team_id = ${teamId} LIMIT ${limit})`,
    (teamId, limit) => count`DELETE FROM webhooks WHERE id IN
        (SELECT id FROM webhooks WHERE team_id = ${teamId} LIMIT ${limit})`,
    (teamId, limit) => count`DELETE FROM log_pages WHERE (sandbox_id, first_at) IN
        (SELECT sandbox_id, first_at FROM log_pages WHERE team_id = ${teamId} LIMIT ${limit})`,
    (teamId, limit) => count`DELETE FROM metric_blocks WHERE (sandbox_id, block_at) IN
        (SELECT sandbox_id, block_at FROM metric_blocks WHERE sandbox_id IN
          (SELECT sandbox_id FROM sandbox_events WHERE team_id = ${teamId}) LIMIT ${limit})`,
    (teamId, limit) => count`DELETE FROM sandbox_events WHERE id IN
        (SELECT id FROM sandbox_events WHERE team_id = ${teamId} LIMIT ${limit})`,
    (teamId, limit) => count`DELETE FROM team_activity WHERE (team_id, at) IN
        (SELECT team_id, at FROM team_activity WHERE team_id = ${teamId} LIMIT ${limit})`,
    (teamId, limit) => count`DELETE FROM secret_uses WHERE (secret_id, version, sandbox_id, host) IN
        (SELECT secret_id, secret_uses.version, sandbox_id, host FROM secret_uses
          JOIN secrets ON secrets.id = secret_id WHERE team_id = ${teamId} LIMIT ${limit})`,
    (teamId, limit) => count`DELETE FROM secrets WHERE id IN
        (SELECT id FROM secrets WHERE team_id = ${teamId} LIMIT ${limit})`,
    (teamId, limit) => count`DELETE FROM idempotency_keys WHERE (team_id, key_hash) IN
        (SELECT team_id, key_hash FROM idempotency_keys WHERE team_id = ${teamId} LIMIT ${limit})`,
    (teamId, limit) => count`DELETE FROM build_logs WHERE (build_id, position) IN
        (SELECT build_id, position FROM build_logs JOIN builds ON builds.id = build_id
          JOIN templates ON templates.id = builds.template_id WHERE templates.team_id = ${teamId} LIMIT ${limit})`,
    (teamId, limit) => count`DELETE FROM builds WHERE id IN
        (SELECT builds.id FROM builds JOIN templates ON templates.id = builds.template_id
          WHERE templates.team_id = ${teamId} AND templates.deleted_at IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM sandboxes WHERE sandboxes.build_id = builds.id) LIMIT ${limit})`,
    (teamId, limit) => count`DELETE FROM templates WHERE id IN
        (SELECT id FROM templates WHERE team_id = ${teamId} AND deleted_at IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM sandboxes WHERE sandboxes.template_id = templates.id) LIMIT ${limit})`,
  ];

  return {
    /**
     * At most `limit` rows; 0: nothing is left. Call it once the team's sandboxes are gone and its templates are marked
     * as deleted. Builds that sandboxes of other teams run from stay.
     */
    async removeSome(teamId: string, limit: number): Promise<number> {
      for (const remove of kinds) {
        const removed = await remove(teamId, limit);
        if (removed > 0) return removed;
      }
      return 0;
    },

    /** Takes the templates that sandboxes of other teams run from out of the team, so that they can outlive it. */
    orphan: (teamId: string) => execute`UPDATE templates SET team_id = NULL, created_by = NULL
        WHERE team_id = ${teamId} AND deleted_at IS NOT NULL
          AND EXISTS (SELECT 1 FROM sandboxes WHERE sandboxes.template_id = templates.id)`,

    /** Removes such templates once the last of these sandboxes is gone. */
    removeOrphans: () => execute`DELETE FROM templates WHERE team_id IS NULL AND deleted_at IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM sandboxes WHERE sandboxes.template_id = templates.id)`,
  };
}
