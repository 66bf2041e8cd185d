/** Finds which builds are in use: those that sandboxes can start from, and those of existing sandboxes. */
import { type Build, builds } from "./builds.ts";
import { integer, resultsOf, type SqlPart, type Statement, sqlPart, text, textOrNull } from "./engine.ts";

/** The number of retired builds, and their checkpoints. */
interface Retired {
  count: number;
  checkpoints: string[];
}

export function buildsInUseIn(sql: Statement) {
  const { texts } = resultsOf(sql);
  async function retire(superseded: SqlPart, message: string, at: number, limit: number): Promise<Retired> {
    const reason = JSON.stringify({ message, step: null });
    const { rows } = await sql`SELECT id, checkpoint FROM builds WHERE ${superseded} LIMIT ${limit}`;
    const retired: Retired = { count: 0, checkpoints: [] };
    for (const { id, checkpoint } of rows) {
      // It may have got a tag or a sandbox between the two statements.
      const { count } = await sql`UPDATE builds SET status = 'error', reason = ${reason}, checkpoint = NULL,
          updated_at = ${at} WHERE id = ${text(id)} AND ${superseded}`;
      const name = textOrNull(checkpoint);
      if (count === 1 && name !== null) retired.checkpoints.push(name);
      retired.count += count;
    }
    return retired;
  }

  return {
    /** Default builds of templates with a ready pool, oldest first. */
    async keptReady(): Promise<{ build: Build; isBuiltIn: boolean; count: number }[]> {
      const { rows } = await sql`SELECT builds.*, templates.team_id, templates.kept_ready FROM ${startable()}
        JOIN template_tags ON template_tags.build_id = builds.id AND template_tags.tag = 'default'
        WHERE templates.deleted_at IS NULL AND (templates.team_id IS NULL OR templates.kept_ready > 0)
          AND builds.volume_mounts = '[]'
        ORDER BY templates.created_at, templates.id`;
      return rows.map((row) => ({
        build: builds.read(row),
        isBuiltIn: row.team_id === null,
        count: integer(row.kept_ready),
      }));
    },

    /** Checkpoints of every build that can be started. */
    checkpoints: () => texts`SELECT DISTINCT builds.checkpoint FROM ${startable()}
        WHERE builds.checkpoint IS NOT NULL AND templates.deleted_at IS NULL`,

    /** Whether a build starts from this checkpoint: several may share one. */
    async startsFrom(checkpoint: string): Promise<boolean> {
      const { rows } = await sql`SELECT 1 FROM ${startable()}
        WHERE builds.checkpoint = ${checkpoint} AND templates.deleted_at IS NULL LIMIT 1`;
      return rows.length > 0;
    },

    /** Retires at most `limit` snapshots that have had no tag since `before`, so that nothing starts from them. */
    retireSnapshots(before: number, at: number, limit: number): Promise<Retired> {
      const superseded = sqlPart`status = 'ready' AND source_sandbox IS NOT NULL AND updated_at < ${before}
        AND NOT EXISTS (SELECT 1 FROM template_tags WHERE template_tags.build_id = builds.id)`;
      return retire(superseded, "a newer snapshot has taken its tag", at, limit);
    },

    /** Retires at most `limit` builds of built-in templates, not the default since `before` and without sandboxes. */
    retireBuiltins(before: number, at: number, limit: number): Promise<Retired> {
      const superseded = sqlPart`status = 'ready' AND source_sandbox IS NULL AND updated_at < ${before}
        AND EXISTS (SELECT 1 FROM templates WHERE templates.id = builds.template_id AND templates.team_id IS NULL)
        AND EXISTS (SELECT 1 FROM template_tags JOIN builds AS current ON current.id = template_tags.build_id
          WHERE template_tags.template_id = builds.template_id AND template_tags.tag = 'default'
            AND current.status = 'ready' AND current.id <> builds.id)
        AND NOT EXISTS (SELECT 1 FROM sandboxes WHERE sandboxes.build_id = builds.id)`;
      return retire(superseded, "a newer version has taken its place", at, limit);
    },

    checkpointsOf: (templateId: string) => texts`SELECT DISTINCT checkpoint FROM builds
        WHERE template_id = ${templateId} AND checkpoint IS NOT NULL`,

    /** Root filesystems of all builds that can be started, and of all existing sandboxes, whatever their template. */
    images: () => texts`SELECT builds.image FROM ${startable()}
          WHERE builds.image IS NOT NULL AND templates.deleted_at IS NULL
        UNION SELECT builds.image FROM builds JOIN sandboxes ON sandboxes.build_id = builds.id
          WHERE builds.image IS NOT NULL ORDER BY image`,
  };
}

function startable(): SqlPart {
  return sqlPart`builds JOIN templates ON templates.id = builds.template_id AND builds.status = 'ready'`;
}
