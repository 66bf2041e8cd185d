/**
 * Secrets of teams. A value is stored encrypted, once per version; only the newest version is ever read.
 */
import { type SqlPart, type Statement, sqlPart } from "./engine.ts";
import { INTEGER, json, type Stored, Table, TEXT } from "./table.ts";

const secrets = new Table({
  id: TEXT,
  teamId: TEXT,
  /** In lower case; unique in the team. */
  name: TEXT,
  /** The newest one. */
  version: INTEGER,
  metadata: json<Record<string, string>>(),
  createdAt: INTEGER,
  updatedAt: INTEGER,
});
const versions = new Table({
  secretId: TEXT,
  version: INTEGER,
  /** The encrypted value, and the id of the key that opens it. */
  sealed: TEXT,
  keyId: TEXT,
  createdAt: INTEGER,
});
const sealedValues = new Table({
  teamId: TEXT,
  secretId: TEXT,
  name: TEXT,
  version: INTEGER,
  sealed: TEXT,
  keyId: TEXT,
});

export type Secret = Stored<typeof secrets>;
type SecretVersion = Stored<typeof versions>;
export type SealedValue = Stored<typeof sealedValues>;
export type SecretPosition = Pick<Secret, "createdAt" | "id">;

const SEALED = sqlPart`SELECT secrets.team_id, secret_id, name, secret_versions.version, sealed, key_id
  FROM secret_versions JOIN secrets ON secrets.id = secret_id`;

export function secretsIn(sql: Statement) {
  const { first, all, changed, number } = secrets.over(sql);
  const versionRows = versions.over(sql);
  const values = sealedValues.over(sql);
  return {
    /** False: another secret of the team has that name. */
    add: (secret: Secret) => changed`INSERT INTO secrets ${secrets.values(secret)} ON CONFLICT DO NOTHING`,
    byId: (teamId: string, id: string) => first`SELECT * FROM secrets WHERE team_id = ${teamId} AND id = ${id}`,
    byName: (teamId: string, name: string) => first`SELECT * FROM secrets
        WHERE team_id = ${teamId} AND name = ${name}`,
    countOf: (teamId: string) => number`SELECT COUNT(*) AS secrets FROM secrets WHERE team_id = ${teamId}`,

    /** Newest first. */
    list: (teamId: string, after: SecretPosition | undefined, limit: number) => all`SELECT * FROM secrets
        WHERE team_id = ${teamId} AND ${
          after === undefined
            ? sqlPart`1 = 1`
            : sqlPart`(created_at < ${after.createdAt}
          OR (created_at = ${after.createdAt} AND id > ${after.id}))`
        }
        ORDER BY created_at DESC, id LIMIT ${limit}`,

    /** Raises the version. Null: the metadata stays. Undefined: the secret is gone. */
    raise: (id: string, metadata: Record<string, string> | null, now: number) => first`UPDATE secrets
        SET version = version + 1, updated_at = ${now},
          metadata = COALESCE(${metadata === null ? null : JSON.stringify(metadata)}, metadata)
        WHERE id = ${id} RETURNING *`,

    /** With all its versions and the record of its use. False: it was gone. */
    remove: (id: string) => changed`DELETE FROM secrets WHERE id = ${id}`,

    addVersion: (version: SecretVersion) =>
      versionRows.execute`INSERT INTO secret_versions ${versions.values(version)}`,
    removeVersionsUpTo: (id: string, version: number) => versionRows.execute`DELETE FROM secret_versions
        WHERE secret_id = ${id} AND version <= ${version}`,

    /** The newest values of the team's secrets with these names, encrypted. */
    valuesOf: (teamId: string, names: readonly string[]) => values.all`${SEALED}
        WHERE secrets.team_id = ${teamId} AND secrets.version = secret_versions.version AND name IN (${listOf(names)})`,

    /** Values that this key does not open. */
    sealedOtherwise: (keyId: string, limit: number) => values.all`${SEALED}
        WHERE key_id <> ${keyId} ORDER BY secret_id, secret_versions.version LIMIT ${limit}`,
    async hasValues(): Promise<boolean> {
      return (await sql`SELECT 1 AS found FROM secret_versions LIMIT 1`).rows.length > 0;
    },
    /** Replaces the encrypted form of a value, unless another call has done so. */
    reseal: (value: SealedValue, to: Pick<SealedValue, "sealed" | "keyId">) => versionRows.execute`
        UPDATE secret_versions SET sealed = ${to.sealed}, key_id = ${to.keyId}
        WHERE secret_id = ${value.secretId} AND version = ${value.version} AND key_id = ${value.keyId}`,
  };
}

/** For IN; never empty, and no name is empty. */
function listOf(names: readonly string[]): SqlPart {
  return names.reduce((list, name) => sqlPart`${list}, ${name}`, sqlPart`''`);
}
