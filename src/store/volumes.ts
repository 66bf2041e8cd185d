/**
 * Volumes. A row exists before its volume and until all of it is gone, so that the next start finds what a crash left
 * to do. Names are unique among the team's volumes that are not being removed.
 */
import { type Statement, text } from "./engine.ts";
import { BOOLEAN, INTEGER, orNull, type Stored, Table, TEXT } from "./table.ts";

const volumes = new Table({
  /** The id, which is also the name on the host. */
  id: TEXT,
  teamId: TEXT,
  name: TEXT,
  sizeMB: INTEGER,
  createdAt: INTEGER,
  /** False: it is being created. */
  isReady: BOOLEAN,
  /** Null unless it is being removed. */
  deletedAt: orNull(INTEGER),
});
export type Volume = Stored<typeof volumes>;

export function volumesIn(sql: Statement) {
  const { first, all, execute, changed, number, texts } = volumes.over(sql);
  return {
    /** False: another volume of the team has that name. */
    add: (volume: Volume) => changed`INSERT INTO volumes ${volumes.values(volume)} ON CONFLICT DO NOTHING`,
    markReady: (id: string) => execute`UPDATE volumes SET is_ready = 1 WHERE id = ${id}`,

    /** Takes the volume from its team and frees its name. False: that was already done. */
    markDeleted: (id: string, at: number) => changed`UPDATE volumes SET deleted_at = ${at}
        WHERE id = ${id} AND deleted_at IS NULL`,

    /** Locks it against deletion until the transaction ends. False: it is deleted, or not the team's. */
    keep: (id: string, teamId: string) => changed`UPDATE volumes SET is_ready = 1
        WHERE id = ${id} AND team_id = ${teamId} AND is_ready = 1 AND deleted_at IS NULL`,

    remove: (id: string) => execute`DELETE FROM volumes WHERE id = ${id}`,

    /** Only a usable volume. */
    byId: (id: string) => first`SELECT * FROM volumes WHERE id = ${id} AND is_ready = 1 AND deleted_at IS NULL`,

    byName: (teamId: string, name: string) => first`SELECT * FROM volumes
        WHERE team_id = ${teamId} AND name = ${name} AND is_ready = 1 AND deleted_at IS NULL`,

    /** Usable volumes, oldest first. */
    of: (teamId: string) => all`SELECT * FROM volumes
        WHERE team_id = ${teamId} AND is_ready = 1 AND deleted_at IS NULL ORDER BY created_at, id`,

    /** Includes volumes being created, which count towards the team's limit. */
    countOf: (teamId: string) => number`SELECT COUNT(*) AS volumes FROM volumes
        WHERE team_id = ${teamId} AND deleted_at IS NULL`,

    /** All volumes, also those that are being created or removed. */
    allOf: (teamId: string) => all`SELECT * FROM volumes WHERE team_id = ${teamId} ORDER BY id`,

    /** Volumes that a previous server left half created or half removed. */
    unfinished: () => all`SELECT * FROM volumes WHERE is_ready = 0 OR deleted_at IS NOT NULL ORDER BY id`,

    /** Ids of sandboxes that have it mounted, running or not; at most `limit`. */
    sandboxesWith: (id: string, limit: number) => texts`SELECT id FROM sandboxes
        WHERE volume_mounts LIKE ${`%"${id}"%`} ORDER BY created_at, id LIMIT ${limit}`,

    /** Templates with a snapshot that has it mounted; at most `limit`. */
    templatesWith: (id: string, limit: number) => texts`SELECT DISTINCT builds.template_id FROM builds
        JOIN templates ON templates.id = builds.template_id
        WHERE builds.volume_mounts LIKE ${`%"${id}"%`} AND builds.status = 'ready' AND templates.deleted_at IS NULL
        ORDER BY builds.template_id LIMIT ${limit}`,

    /** The secret that signs volume tokens. The first one offered is used by all servers from then on. */
    async signingSecret(offered: string): Promise<string> {
      await sql`INSERT INTO signing_secrets (purpose, secret) VALUES ('volumes', ${offered}) ON CONFLICT DO NOTHING`;
      const { rows } = await sql`SELECT secret FROM signing_secrets WHERE purpose = 'volumes'`;
      return text(rows[0]?.secret);
    },
  };
}
