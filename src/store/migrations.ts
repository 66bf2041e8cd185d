/**
 * How the tables came to be. The list only grows: a step that has been released is never edited, the next one corrects it.
 * Every statement is read by SQLite and Postgres alike.
 */
import { Fault } from "../contract/fault.ts";
import { type Engine, integer, type Statement } from "./engine.ts";

export interface Migration {
  /** Position in the list, from 1. */
  version: number;
  title: string;
  apply(sql: Statement): Promise<void>;
}

export const migrations: readonly Migration[] = [
  {
    version: 1,
    title: "people, teams and keys",
    async apply(sql) {
      await sql`CREATE TABLE users (
        id TEXT PRIMARY KEY,
        email TEXT NOT NULL UNIQUE,
        created_at BIGINT NOT NULL)`;
      await sql`CREATE TABLE teams (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        slug TEXT NOT NULL UNIQUE,
        limits TEXT NOT NULL,
        created_at BIGINT NOT NULL)`;
      await sql`CREATE TABLE team_members (
        team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
        user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        is_default INTEGER NOT NULL,
        PRIMARY KEY (user_id, team_id))`;
      await sql`CREATE TABLE api_keys (
        id TEXT PRIMARY KEY,
        team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        hash TEXT NOT NULL UNIQUE,
        mask_prefix TEXT NOT NULL,
        mask_suffix TEXT NOT NULL,
        value_length INTEGER NOT NULL,
        created_at BIGINT NOT NULL,
        created_by TEXT REFERENCES users (id) ON DELETE SET NULL,
        last_used_at BIGINT)`;
      await sql`CREATE INDEX api_keys_of_team ON api_keys (team_id)`;
      await sql`CREATE TABLE access_tokens (
        id TEXT PRIMARY KEY,
        user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        hash TEXT NOT NULL UNIQUE,
        mask_prefix TEXT NOT NULL,
        mask_suffix TEXT NOT NULL,
        value_length INTEGER NOT NULL,
        created_at BIGINT NOT NULL)`;
    },
  },
  {
    version: 2,
    title: "templates and their builds",
    async apply(sql) {
      await sql`CREATE TABLE templates (
        id TEXT PRIMARY KEY,
        team_id TEXT REFERENCES teams (id) ON DELETE CASCADE,
        is_public INTEGER NOT NULL,
        image TEXT NOT NULL,
        cpu_count INTEGER NOT NULL,
        memory_mb INTEGER NOT NULL,
        disk_size_mb INTEGER NOT NULL,
        default_user TEXT NOT NULL,
        default_workdir TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        created_by TEXT REFERENCES users (id) ON DELETE SET NULL,
        spawn_count BIGINT NOT NULL,
        last_spawned_at BIGINT,
        build_count INTEGER NOT NULL)`;
      await sql`CREATE TABLE template_aliases (
        namespace TEXT NOT NULL,
        alias TEXT NOT NULL,
        template_id TEXT NOT NULL REFERENCES templates (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        PRIMARY KEY (namespace, alias))`;
      await sql`CREATE INDEX aliases_of_template ON template_aliases (template_id, position)`;
      await sql`CREATE TABLE builds (
        id TEXT PRIMARY KEY,
        template_id TEXT NOT NULL REFERENCES templates (id) ON DELETE CASCADE,
        status TEXT NOT NULL,
        created_at BIGINT NOT NULL)`;
      await sql`CREATE INDEX builds_of_template ON builds (template_id, created_at)`;
    },
  },
  {
    version: 3,
    title: "sandboxes",
    async apply(sql) {
      await sql`CREATE TABLE sandboxes (
        id TEXT PRIMARY KEY,
        team_id TEXT NOT NULL REFERENCES teams (id),
        template_id TEXT NOT NULL REFERENCES templates (id),
        build_id TEXT NOT NULL,
        alias TEXT NOT NULL,
        state TEXT NOT NULL,
        execution_id TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        started_at BIGINT NOT NULL,
        end_at BIGINT NOT NULL,
        metadata TEXT NOT NULL,
        env_vars TEXT NOT NULL,
        secure INTEGER NOT NULL,
        tokens TEXT NOT NULL,
        allow_internet_access INTEGER,
        mcp TEXT,
        cpu_count INTEGER NOT NULL,
        memory_mb INTEGER NOT NULL,
        disk_size_mb INTEGER NOT NULL)`;
      await sql`CREATE INDEX sandboxes_of_team ON sandboxes (team_id, started_at DESC, id)`;
      await sql`CREATE INDEX sandboxes_by_end ON sandboxes (state, end_at)`;
    },
  },
];

/** Brings the database to the newest version, each step in a transaction of its own. */
export async function migrate(engine: Engine, now: number, steps: readonly Migration[] = migrations): Promise<void> {
  await engine.sql`CREATE TABLE IF NOT EXISTS schema_versions (
    version INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    applied_at BIGINT NOT NULL)`;
  const known = steps.length;
  const found = await currentVersion(engine.sql);
  if (found > known) {
    throw new Fault(
      500,
      `the database is at version ${found}, but this program knows versions up to ${known}; ` +
        "start the newer program that wrote it, or restore a backup from before the upgrade",
    );
  }
  for (const step of steps) {
    await engine.transaction(async (sql) => {
      // Asked again inside: another process may have been here first.
      if ((await currentVersion(sql)) >= step.version) return;
      await step.apply(sql);
      await sql`INSERT INTO schema_versions (version, title, applied_at) VALUES (${step.version}, ${step.title}, ${now})`;
    });
  }
}

async function currentVersion(sql: Statement): Promise<number> {
  const { rows } = await sql`SELECT COALESCE(MAX(version), 0) AS version FROM schema_versions`;
  return integer(rows[0]?.version);
}
