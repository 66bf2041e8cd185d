/** API keys of teams and access tokens of users. Only hashes are stored, so a stolen database opens nothing. */
import { integer, integerOrNull, type Row, type Statement, text, textOrNull } from "./engine.ts";
import { readTeam, type Team } from "./people.ts";

/** The parts of a secret that may be shown after its creation. */
export interface Mask {
  /** First characters after the format's own prefix. */
  prefix: string;
  suffix: string;
  /** Length without the format's own prefix. */
  valueLength: number;
}

export interface ApiKey {
  id: string;
  teamId: string;
  name: string;
  mask: Mask;
  createdAt: number;
  createdBy: string | null;
  lastUsedAt: number | null;
}

export interface ListedApiKey extends ApiKey {
  /** Email of `createdBy`. */
  creatorEmail: string | null;
}

export interface AccessToken {
  id: string;
  userId: string;
  name: string;
  mask: Mask;
  createdAt: number;
}

export function keysIn(sql: Statement) {
  return {
    async addApiKey(key: ApiKey, hash: string): Promise<void> {
      await sql`INSERT INTO api_keys
          (id, team_id, name, hash, mask_prefix, mask_suffix, value_length, created_at, created_by, last_used_at)
        VALUES (${key.id}, ${key.teamId}, ${key.name}, ${hash}, ${key.mask.prefix}, ${key.mask.suffix},
          ${key.mask.valueLength}, ${key.createdAt}, ${key.createdBy}, ${key.lastUsedAt})`;
    },

    /** The key with this hash and its team, in one lookup. */
    async apiKeyByHash(hash: string): Promise<{ key: ApiKey; team: Team } | undefined> {
      const { rows } = await sql`SELECT api_keys.*,
          teams.name AS team_name, teams.slug AS team_slug, teams.limits AS team_limits, teams.created_at AS team_created_at
        FROM api_keys JOIN teams ON teams.id = api_keys.team_id WHERE api_keys.hash = ${hash}`;
      const row = rows[0];
      if (row === undefined) return undefined;
      const team = readTeam({
        id: row.team_id,
        name: row.team_name,
        slug: row.team_slug,
        limits: row.team_limits,
        created_at: row.team_created_at,
      });
      return { key: readApiKey(row), team };
    },

    /** Oldest first. */
    async apiKeysOf(teamId: string): Promise<ListedApiKey[]> {
      const { rows } = await sql`SELECT api_keys.*, users.email AS creator_email
        FROM api_keys LEFT JOIN users ON users.id = api_keys.created_by
        WHERE api_keys.team_id = ${teamId} ORDER BY api_keys.created_at, api_keys.id`;
      return rows.map((row) => ({ ...readApiKey(row), creatorEmail: textOrNull(row.creator_email) }));
    },

    async countApiKeys(teamId: string): Promise<number> {
      const { rows } = await sql`SELECT COUNT(*) AS keys FROM api_keys WHERE team_id = ${teamId}`;
      return integer(rows[0]?.keys);
    },

    /** False: there is no such key. */
    async renameApiKey(teamId: string, id: string, name: string): Promise<boolean> {
      const { count } = await sql`UPDATE api_keys SET name = ${name} WHERE id = ${id} AND team_id = ${teamId}`;
      return count === 1;
    },

    /** False: there was no such key. */
    async removeApiKey(teamId: string, id: string): Promise<boolean> {
      const { count } = await sql`DELETE FROM api_keys WHERE id = ${id} AND team_id = ${teamId}`;
      return count === 1;
    },

    async noteApiKeyUse(id: string, at: number): Promise<void> {
      await sql`UPDATE api_keys SET last_used_at = ${at} WHERE id = ${id}`;
    },

    async addAccessToken(token: AccessToken, hash: string): Promise<void> {
      await sql`INSERT INTO access_tokens (id, user_id, name, hash, mask_prefix, mask_suffix, value_length, created_at)
        VALUES (${token.id}, ${token.userId}, ${token.name}, ${hash}, ${token.mask.prefix}, ${token.mask.suffix},
          ${token.mask.valueLength}, ${token.createdAt})`;
    },

    async accessTokenByHash(hash: string): Promise<AccessToken | undefined> {
      const { rows } = await sql`SELECT * FROM access_tokens WHERE hash = ${hash}`;
      return rows[0] && readAccessToken(rows[0]);
    },

    /** Oldest first. */
    async accessTokensOf(userId: string): Promise<AccessToken[]> {
      const { rows } = await sql`SELECT * FROM access_tokens WHERE user_id = ${userId} ORDER BY created_at, id`;
      return rows.map(readAccessToken);
    },

    /** False: there was no such token. */
    async removeAccessToken(userId: string, id: string): Promise<boolean> {
      const { count } = await sql`DELETE FROM access_tokens WHERE id = ${id} AND user_id = ${userId}`;
      return count === 1;
    },
  };
}

function readMask(row: Row): Mask {
  return {
    prefix: text(row.mask_prefix),
    suffix: text(row.mask_suffix),
    valueLength: integer(row.value_length),
  };
}

function readApiKey(row: Row): ApiKey {
  return {
    id: text(row.id),
    teamId: text(row.team_id),
    name: text(row.name),
    mask: readMask(row),
    createdAt: integer(row.created_at),
    createdBy: textOrNull(row.created_by),
    lastUsedAt: integerOrNull(row.last_used_at),
  };
}

function readAccessToken(row: Row): AccessToken {
  return {
    id: text(row.id),
    userId: text(row.user_id),
    name: text(row.name),
    mask: readMask(row),
    createdAt: integer(row.created_at),
  };
}
