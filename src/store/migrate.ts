/** Brings a database to the newest version of the schema, and refuses one that a newer program has migrated. */
import { version } from "../base/version.ts";
import { Fault } from "../contract/fault.ts";
import { type Engine, integer, type Statement } from "./engine.ts";
import { type Migration, migrations } from "./migrations.ts";

const VERSIONS = "schema_versions";
/** Between the title of a step and the version of the program that applied it. */
const WRITTEN_BY = ", by sandlot ";

/** Migrates the database to the newest version, one transaction per step. */
export async function migrate(engine: Engine, now: number, steps: readonly Migration[] = migrations): Promise<void> {
  if (!(await engine.hasTable(VERSIONS))) {
    await engine.migration(
      (sql) => sql`CREATE TABLE IF NOT EXISTS schema_versions (
        version INTEGER PRIMARY KEY,
        title TEXT NOT NULL,
        applied_at BIGINT NOT NULL)`,
    );
  }
  const found = await knownVersion(engine, steps.length);
  for (const step of steps.slice(found)) {
    await engine.migration(async (sql) => {
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
  const found = (await engine.hasTable(VERSIONS)) ? await currentVersion(engine.sql) : 0;
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
