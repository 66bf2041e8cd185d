/**
 * Migrations of the database. The list only grows: a released step is never edited; a later step corrects it. Every
 * statement works in SQLite and in Postgres.
 */
import { version } from "../base/version.ts";
import { Fault } from "../contract/fault.ts";
import { type Engine, integer, type Statement } from "./engine.ts";

interface Migration {
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
  {
    version: 4,
    title: "checkpoints: paused sandboxes and snapshots",
    async apply(sql) {
      await sql`ALTER TABLE sandboxes ADD COLUMN checkpoint TEXT`;
      await sql`ALTER TABLE sandboxes ADD COLUMN checkpoint_memory INTEGER NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE sandboxes ADD COLUMN paused_at BIGINT`;
      await sql`ALTER TABLE sandboxes ADD COLUMN kill_wanted INTEGER NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE sandboxes ADD COLUMN pause_failures INTEGER NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE sandboxes ADD COLUMN timeout_seconds BIGINT NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE sandboxes ADD COLUMN auto_pause INTEGER NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE sandboxes ADD COLUMN auto_pause_memory INTEGER NOT NULL DEFAULT 1`;
      await sql`ALTER TABLE sandboxes ADD COLUMN auto_resume INTEGER NOT NULL DEFAULT 0`;
      await sql`CREATE INDEX sandboxes_of_template ON sandboxes (template_id)`;
      await sql`ALTER TABLE templates ADD COLUMN deleted_at BIGINT`;
      await sql`ALTER TABLE builds ADD COLUMN checkpoint TEXT`;
      await sql`ALTER TABLE builds ADD COLUMN source_sandbox TEXT`;
      await sql`ALTER TABLE builds ADD COLUMN env_vars TEXT NOT NULL DEFAULT '{}'`;
      await sql`CREATE TABLE template_tags (
        template_id TEXT NOT NULL REFERENCES templates (id) ON DELETE CASCADE,
        tag TEXT NOT NULL,
        build_id TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
        created_at BIGINT NOT NULL,
        PRIMARY KEY (template_id, tag))`;
    },
  },
  {
    version: 5,
    title: "logs, metrics, events and webhooks",
    async apply(sql) {
      // No references to sandboxes or templates: these rows outlive them.
      await sql`CREATE TABLE log_pages (
        sandbox_id TEXT NOT NULL,
        first_at BIGINT NOT NULL,
        last_at BIGINT NOT NULL,
        team_id TEXT NOT NULL,
        line_count INTEGER NOT NULL,
        byte_count INTEGER NOT NULL,
        position TEXT NOT NULL,
        lines TEXT NOT NULL,
        PRIMARY KEY (sandbox_id, first_at))`;
      await sql`CREATE INDEX log_pages_by_age ON log_pages (last_at)`;
      await sql`CREATE INDEX log_pages_of_team ON log_pages (team_id, last_at, byte_count)`;
      await sql`CREATE TABLE metric_blocks (
        sandbox_id TEXT NOT NULL,
        block_at BIGINT NOT NULL,
        team_id TEXT NOT NULL,
        step_ms INTEGER NOT NULL,
        samples TEXT NOT NULL,
        PRIMARY KEY (sandbox_id, block_at))`;
      await sql`CREATE INDEX metric_blocks_by_age ON metric_blocks (step_ms, block_at)`;
      await sql`CREATE INDEX metric_blocks_by_time ON metric_blocks (block_at)`;
      await sql`CREATE TABLE sandbox_events (
        id TEXT PRIMARY KEY,
        team_id TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        execution_id TEXT NOT NULL,
        template_id TEXT NOT NULL,
        build_id TEXT NOT NULL,
        type TEXT NOT NULL,
        at BIGINT NOT NULL,
        position BIGINT NOT NULL,
        detail TEXT NOT NULL)`;
      await sql`CREATE INDEX events_of_team ON sandbox_events (team_id, position)`;
      await sql`CREATE INDEX events_of_sandbox ON sandbox_events (sandbox_id, position)`;
      await sql`CREATE INDEX events_by_age ON sandbox_events (at)`;
      await sql`CREATE TABLE webhooks (
        id TEXT PRIMARY KEY,
        team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        url TEXT NOT NULL,
        events TEXT NOT NULL,
        secret TEXT NOT NULL,
        enabled INTEGER NOT NULL,
        created_at BIGINT NOT NULL)`;
      await sql`CREATE INDEX webhooks_of_team ON webhooks (team_id, created_at)`;
      await sql`CREATE TABLE webhook_deliveries (
        id TEXT PRIMARY KEY,
        webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
        event_id TEXT NOT NULL,
        event_type TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        event_at BIGINT NOT NULL,
        status TEXT NOT NULL,
        next_at BIGINT NOT NULL,
        attempts TEXT NOT NULL)`;
      await sql`CREATE INDEX deliveries_of_webhook ON webhook_deliveries (webhook_id, event_at, id)`;
      await sql`CREATE INDEX deliveries_due ON webhook_deliveries (status, webhook_id, next_at)`;
      await sql`CREATE INDEX deliveries_by_age ON webhook_deliveries (event_at)`;
    },
  },
  {
    version: 6,
    title: "builds with resources, results and logs of their own",
    async apply(sql) {
      await sql`ALTER TABLE builds ADD COLUMN number INTEGER NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE builds ADD COLUMN generation INTEGER NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE builds ADD COLUMN tags TEXT NOT NULL DEFAULT '[]'`;
      await sql`ALTER TABLE builds ADD COLUMN cpu_count INTEGER NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE builds ADD COLUMN memory_mb INTEGER NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE builds ADD COLUMN disk_size_mb INTEGER NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE builds ADD COLUMN image TEXT`;
      await sql`ALTER TABLE builds ADD COLUMN default_user TEXT NOT NULL DEFAULT ''`;
      await sql`ALTER TABLE builds ADD COLUMN default_workdir TEXT NOT NULL DEFAULT ''`;
      await sql`ALTER TABLE builds ADD COLUMN guest_version TEXT`;
      await sql`ALTER TABLE builds ADD COLUMN start_command TEXT`;
      await sql`ALTER TABLE builds ADD COLUMN reason TEXT`;
      await sql`ALTER TABLE builds ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE builds ADD COLUMN finished_at BIGINT`;
      await sql`ALTER TABLE builds ADD COLUMN log_count INTEGER NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE builds ADD COLUMN log_bytes BIGINT NOT NULL DEFAULT 0`;
      await sql`UPDATE builds SET updated_at = created_at,
          finished_at = CASE WHEN status = 'ready' THEN created_at ELSE NULL END,
          number = (SELECT COUNT(*) FROM builds older WHERE older.template_id = builds.template_id
            AND (older.created_at < builds.created_at
              OR (older.created_at = builds.created_at AND older.id >= builds.id)))`;
      await sql`UPDATE builds SET (image, cpu_count, memory_mb, disk_size_mb, default_user, default_workdir) =
        (SELECT image, cpu_count, memory_mb, disk_size_mb, default_user, default_workdir FROM templates
          WHERE templates.id = builds.template_id)`;
      await sql`CREATE UNIQUE INDEX builds_by_number ON builds (template_id, number)`;
      await sql`CREATE INDEX builds_by_status ON builds (status)`;
      await sql`CREATE INDEX builds_by_checkpoint ON builds (checkpoint)`;
      await sql`CREATE INDEX sandboxes_of_build ON sandboxes (build_id)`;
      await sql`ALTER TABLE templates ADD COLUMN kept_ready INTEGER NOT NULL DEFAULT 0`;
      await sql`ALTER TABLE templates DROP COLUMN image`;
      await sql`ALTER TABLE templates DROP COLUMN cpu_count`;
      await sql`ALTER TABLE templates DROP COLUMN memory_mb`;
      await sql`ALTER TABLE templates DROP COLUMN disk_size_mb`;
      await sql`ALTER TABLE templates DROP COLUMN default_user`;
      await sql`ALTER TABLE templates DROP COLUMN default_workdir`;
      await sql`CREATE INDEX templates_of_team ON templates (team_id, created_at)`;
      await sql`ALTER TABLE template_tags ADD COLUMN position INTEGER NOT NULL DEFAULT 0`;
      await sql`UPDATE template_tags SET position = (SELECT number FROM builds WHERE builds.id = template_tags.build_id)`;
      // Built-in templates had no tags: their newest build was the default.
      await sql`INSERT INTO template_tags (template_id, tag, build_id, created_at, position)
        SELECT builds.template_id, 'default', builds.id, builds.created_at, builds.number FROM builds
        JOIN templates ON templates.id = builds.template_id
        WHERE templates.team_id IS NULL AND builds.number =
          (SELECT MAX(number) FROM builds newest WHERE newest.template_id = templates.id AND newest.status = 'ready')
        ON CONFLICT (template_id, tag) DO NOTHING`;
      await sql`CREATE TABLE build_logs (
        build_id TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        at BIGINT NOT NULL,
        level INTEGER NOT NULL,
        step TEXT,
        message TEXT NOT NULL,
        PRIMARY KEY (build_id, position))`;
    },
  },
  {
    version: 7,
    title: "how many sandboxes of a team ran",
    async apply(sql) {
      await sql`CREATE TABLE team_activity (
        team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
        at BIGINT NOT NULL,
        step_ms INTEGER NOT NULL,
        opening INTEGER NOT NULL,
        closing INTEGER NOT NULL,
        peak INTEGER NOT NULL,
        starts INTEGER NOT NULL,
        busiest INTEGER NOT NULL,
        PRIMARY KEY (team_id, at))`;
      await sql`CREATE INDEX team_activity_by_age ON team_activity (step_ms, at)`;
    },
  },
  {
    version: 8,
    title: "volumes",
    async apply(sql) {
      await sql`CREATE TABLE volumes (
        id TEXT PRIMARY KEY,
        team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        size_mb INTEGER NOT NULL,
        created_at BIGINT NOT NULL,
        is_ready INTEGER NOT NULL,
        deleted_at BIGINT)`;
      await sql`CREATE UNIQUE INDEX volumes_by_name ON volumes (team_id, name) WHERE deleted_at IS NULL`;
      await sql`CREATE TABLE signing_secrets (purpose TEXT PRIMARY KEY, secret TEXT NOT NULL)`;
      await sql`ALTER TABLE sandboxes ADD COLUMN volume_mounts TEXT NOT NULL DEFAULT '[]'`;
      await sql`ALTER TABLE builds ADD COLUMN volume_mounts TEXT NOT NULL DEFAULT '[]'`;
    },
  },
  {
    version: 9,
    title: "network rules and private addresses",
    async apply(sql) {
      await sql`ALTER TABLE sandboxes ADD COLUMN network TEXT NOT NULL DEFAULT '{}'`;
      await sql`ALTER TABLE sandboxes ADD COLUMN traffic_token TEXT`;
      await sql`ALTER TABLE sandboxes ADD COLUMN egress_unsettled INTEGER NOT NULL DEFAULT 0`;
    },
  },
  {
    version: 10,
    title: "the wall of a template",
    async apply(sql) {
      await sql`ALTER TABLE templates ADD COLUMN wall TEXT`;
      await sql`ALTER TABLE builds ADD COLUMN wall TEXT`;
    },
  },
  {
    version: 11,
    title: "idempotency keys of creates",
    async apply(sql) {
      await sql`CREATE TABLE idempotency_keys (
        team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
        key_hash TEXT NOT NULL,
        request_hash TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        PRIMARY KEY (team_id, key_hash))`;
      await sql`CREATE INDEX idempotency_keys_of_team ON idempotency_keys (team_id, created_at)`;
      await sql`CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at)`;
    },
  },
  {
    version: 12,
    title: "deletion of teams, admin tokens and the audit log",
    async apply(sql) {
      await sql`ALTER TABLE teams ADD COLUMN deleting_since BIGINT`;
      await sql`CREATE TABLE admin_tokens (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        hash TEXT NOT NULL UNIQUE,
        mask_prefix TEXT NOT NULL,
        mask_suffix TEXT NOT NULL,
        value_length INTEGER NOT NULL,
        created_at BIGINT NOT NULL,
        last_used_at BIGINT)`;
      // No references: entries outlive teams, users and keys.
      await sql`CREATE TABLE audit_log (
        id TEXT PRIMARY KEY,
        at BIGINT NOT NULL,
        subject TEXT NOT NULL,
        team_id TEXT,
        actor TEXT NOT NULL,
        actor_id TEXT,
        action TEXT NOT NULL,
        object TEXT,
        address TEXT,
        status INTEGER NOT NULL,
        request_id TEXT)`;
      await sql`CREATE INDEX audit_by_time ON audit_log (at, id)`;
      await sql`CREATE INDEX audit_of_team ON audit_log (team_id, subject, at, id)`;
      await sql`CREATE TABLE server_state (name TEXT PRIMARY KEY, value TEXT NOT NULL, changed_at BIGINT NOT NULL)`;
    },
  },
  {
    version: 13,
    title: "passwords and logins",
    async apply(sql) {
      await sql`CREATE TABLE login_passwords (
        user_id TEXT PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
        hash TEXT NOT NULL,
        set_at BIGINT NOT NULL)`;
      await sql`CREATE TABLE logins (
        id TEXT PRIMARY KEY,
        user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
        api_key_id TEXT REFERENCES api_keys (id) ON DELETE CASCADE,
        sealed_key TEXT,
        generation INTEGER NOT NULL,
        rotated_at BIGINT NOT NULL,
        created_at BIGINT NOT NULL)`;
      await sql`CREATE INDEX logins_of_user ON logins (user_id, created_at)`;
      await sql`CREATE INDEX logins_of_api_key ON logins (api_key_id, created_at)`;
      await sql`CREATE INDEX logins_by_age ON logins (created_at)`;
    },
  },
  {
    version: 14,
    title: "the runtime version of a sandbox",
    async apply(sql) {
      // The version of all guests until then. Snapshots without memory get it too: no row says which they are.
      await sql`ALTER TABLE sandboxes ADD COLUMN guest_version TEXT NOT NULL DEFAULT '0.6.13'`;
      await sql`UPDATE builds SET guest_version = '0.6.13' WHERE checkpoint IS NOT NULL AND guest_version IS NULL`;
    },
  },
  {
    version: 15,
    title: "secrets and workload identity",
    async apply(sql) {
      await sql`CREATE TABLE secrets (
        id TEXT PRIMARY KEY,
        team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        version BIGINT NOT NULL,
        metadata TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        UNIQUE (team_id, name))`;
      await sql`CREATE INDEX secrets_of_team ON secrets (team_id, created_at DESC, id)`;
      await sql`CREATE TABLE secret_versions (
        secret_id TEXT NOT NULL REFERENCES secrets (id) ON DELETE CASCADE,
        version BIGINT NOT NULL,
        sealed TEXT NOT NULL,
        key_id TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        PRIMARY KEY (secret_id, version))`;
      await sql`CREATE INDEX secret_versions_by_key ON secret_versions (key_id)`;
      // No reference to sandboxes: the record of use outlives them.
      await sql`CREATE TABLE secret_uses (
        secret_id TEXT NOT NULL REFERENCES secrets (id) ON DELETE CASCADE,
        version BIGINT NOT NULL,
        sandbox_id TEXT NOT NULL,
        host TEXT NOT NULL,
        count BIGINT NOT NULL,
        first_at BIGINT NOT NULL,
        last_at BIGINT NOT NULL,
        PRIMARY KEY (secret_id, version, sandbox_id, host))`;
      await sql`CREATE INDEX secret_uses_by_time ON secret_uses (secret_id, last_at)`;
      await sql`CREATE TABLE signing_keys (
        id TEXT PRIMARY KEY,
        public_key TEXT NOT NULL,
        sealed TEXT NOT NULL,
        key_id TEXT NOT NULL,
        created_at BIGINT NOT NULL)`;
      await sql`ALTER TABLE sandboxes ADD COLUMN identity_tokens TEXT NOT NULL DEFAULT '{}'`;
    },
  },
];

/** Between the title of a step and the version of the program that applied it. */
const WRITTEN_BY = ", by sandlot ";

/** Migrates the database to the newest version, one transaction per step. */
export async function migrate(engine: Engine, now: number, steps: readonly Migration[] = migrations): Promise<void> {
  const found = await knownVersion(engine, steps.length);
  for (const step of steps.filter(({ version }) => version > found)) {
    await engine.transaction(async (sql) => {
      // Checked again inside the transaction: another process may have been first.
      if ((await currentVersion(sql)) >= step.version) return;
      await step.apply(sql);
      await sql`INSERT INTO schema_versions (version, title, applied_at) VALUES (${step.version}, ${step.title + WRITTEN_BY + version()}, ${now})`;
    });
  }
}

/** Throws Fault 409 for a database that this program would have to migrate. */
export async function requireMigrated(engine: Engine): Promise<void> {
  const known = migrations.length;
  const found = await knownVersion(engine, known);
  if (found === known) return;
  throw new Fault(
    409,
    `the store has version ${found}, but this program, sandlot ${version()}, needs version ${known}. FIX: restart the ` +
      "server with this version first; only a server migrates its store",
  );
}

/** Throws Fault 500 for a database of a newer program. */
async function knownVersion(engine: Engine, known: number): Promise<number> {
  await engine.sql`CREATE TABLE IF NOT EXISTS schema_versions (
    version INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    applied_at BIGINT NOT NULL)`;
  const found = await currentVersion(engine.sql);
  if (found > known) {
    throw new Fault(
      500,
      `the database is at version ${found}, but this program, sandlot ${version()}, knows versions up to ${known}. FIX: ` +
        `start ${await writerOf(engine.sql)}, or restore a backup from before the upgrade (docs/upgrade.md)`,
    );
  }
  return found;
}

/** The program that brought the database to its version, for an older program. */
async function writerOf(sql: Statement): Promise<string> {
  const { rows } = await sql`SELECT title FROM schema_versions ORDER BY version DESC LIMIT 1`;
  const [, writer] = String(rows[0]?.title).split(WRITTEN_BY);
  return writer === undefined ? "the newer program that wrote it" : `sandlot ${writer} or later`;
}

async function currentVersion(sql: Statement): Promise<number> {
  const { rows } = await sql`SELECT COALESCE(MAX(version), 0) AS version FROM schema_versions`;
  return integer(rows[0]?.version);
}
