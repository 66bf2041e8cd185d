/** API keys of teams, access tokens of users, admin tokens. Only hashes are stored: a stolen database opens nothing. */
import { type Statement, text, textOrNull } from "./engine.ts";
import { type Team, teams } from "./people.ts";
import { INTEGER, orNull, type Stored, Table, TEXT } from "./table.ts";

/** The parts of a secret that may be shown after its creation. */
const maskColumns = {
  /** First characters after the format's own prefix. */
  maskPrefix: TEXT,
  maskSuffix: TEXT,
  /** Length without the format's own prefix. */
  valueLength: INTEGER,
};
const masks = new Table(maskColumns);
export type Mask = Stored<typeof masks>;

const apiKeys = new Table({
  id: TEXT,
  teamId: TEXT,
  name: TEXT,
  hash: TEXT,
  ...maskColumns,
  createdAt: INTEGER,
  createdBy: orNull(TEXT),
  lastUsedAt: orNull(INTEGER),
});
export type ApiKey = Stored<typeof apiKeys>;

export interface ListedApiKey extends ApiKey {
  /** Email of `createdBy`. */
  creatorEmail: string | null;
}

const accessTokens = new Table({ id: TEXT, userId: TEXT, name: TEXT, hash: TEXT, ...maskColumns, createdAt: INTEGER });
export type AccessToken = Stored<typeof accessTokens>;

const adminTokens = new Table({
  id: TEXT,
  name: TEXT,
  hash: TEXT,
  ...maskColumns,
  createdAt: INTEGER,
  lastUsedAt: orNull(INTEGER),
});
export type AdminToken = Stored<typeof adminTokens>;

export function keysIn(sql: Statement) {
  const { first, all, execute, changed, count, number } = accessTokens.over(sql);
  const ofAdmins = adminTokens.over(sql);
  return {
    addApiKey: (key: ApiKey) => execute`INSERT INTO api_keys ${apiKeys.values(key)}`,

    /** The key with this hash and its team, in one lookup. */
    async apiKeyByHash(hash: string): Promise<{ key: ApiKey; team: Team } | undefined> {
      const { rows } = await sql`SELECT api_keys.*,
          teams.name AS team_name, teams.slug AS team_slug, teams.limits AS team_limits, teams.created_at AS team_created_at,
          teams.deleting_since AS team_deleting_since
        FROM api_keys JOIN teams ON teams.id = api_keys.team_id WHERE api_keys.hash = ${hash}`;
      const row = rows[0];
      if (row === undefined) return undefined;
      const team = teams.read({
        id: row.team_id,
        name: row.team_name,
        slug: row.team_slug,
        limits: row.team_limits,
        created_at: row.team_created_at,
        deleting_since: row.team_deleting_since,
      });
      return { key: apiKeys.read(row), team };
    },

    /** Oldest first. */
    async apiKeysOf(teamId: string): Promise<ListedApiKey[]> {
      const { rows } = await sql`SELECT api_keys.*, users.email AS creator_email
        FROM api_keys LEFT JOIN users ON users.id = api_keys.created_by
        WHERE api_keys.team_id = ${teamId} ORDER BY api_keys.created_at, api_keys.id`;
      return rows.map((row) => ({ ...apiKeys.read(row), creatorEmail: textOrNull(row.creator_email) }));
    },

    /** Undefined: there is no such key. */
    async teamOfApiKey(id: string): Promise<string | undefined> {
      const { rows } = await sql`SELECT team_id FROM api_keys WHERE id = ${id}`;
      return rows[0] && text(rows[0].team_id);
    },

    countApiKeys: (teamId: string) => number`SELECT COUNT(*) AS keys FROM api_keys WHERE team_id = ${teamId}`,

    /** False: there is no such key. */
    renameApiKey: (teamId: string, id: string, name: string) => changed`UPDATE api_keys SET name = ${name}
        WHERE id = ${id} AND team_id = ${teamId}`,

    /** False: there was no such key. */
    removeApiKey: (teamId: string, id: string) => changed`DELETE FROM api_keys
        WHERE id = ${id} AND team_id = ${teamId}`,

    /** The keys that this user created, also by logging in: of one team, or of all. Returns how many. */
    removeApiKeysBy: (userId: string, teamId = "") => count`DELETE FROM api_keys
        WHERE created_by = ${userId} AND (${teamId} = '' OR team_id = ${teamId})`,

    /** Counts the keys that `removeApiKeysBy` would remove. */
    countApiKeysBy: (userId: string, teamId = "") => number`SELECT COUNT(*) AS keys FROM api_keys
        WHERE created_by = ${userId} AND (${teamId} = '' OR team_id = ${teamId})`,
    noteApiKeyUse: (id: string, at: number) => execute`UPDATE api_keys SET last_used_at = ${at} WHERE id = ${id}`,
    addAccessToken: (token: AccessToken) => execute`INSERT INTO access_tokens ${accessTokens.values(token)}`,
    accessTokenByHash: (hash: string) => first`SELECT * FROM access_tokens WHERE hash = ${hash}`,

    /** Oldest first. */
    accessTokensOf: (userId: string) => all`SELECT * FROM access_tokens
        WHERE user_id = ${userId} ORDER BY created_at, id`,

    /** False: there was no such token. */
    removeAccessToken: (userId: string, id: string) => changed`DELETE FROM access_tokens
        WHERE id = ${id} AND user_id = ${userId}`,

    addAdminToken: (token: AdminToken) => execute`INSERT INTO admin_tokens ${adminTokens.values(token)}`,
    adminTokenByHash: (hash: string) => ofAdmins.first`SELECT * FROM admin_tokens WHERE hash = ${hash}`,

    /** Oldest first. */
    adminTokens: () => ofAdmins.all`SELECT * FROM admin_tokens ORDER BY created_at, id`,
    noteAdminTokenUse: (id: string, at: number) =>
      execute`UPDATE admin_tokens SET last_used_at = ${at} WHERE id = ${id}`,

    /** False: there was no such token. */
    removeAdminToken: (id: string) => changed`DELETE FROM admin_tokens WHERE id = ${id}`,
  };
}
