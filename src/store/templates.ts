/** Templates and their names. The properties of their sandboxes are in their builds (builds.ts). */
import { isRuntimeName, type RuntimeName } from "../contract/runtime-name.ts";
import { type Statement, text, textOrNull } from "./engine.ts";
import { BOOLEAN, INTEGER, orNull, type Stored, Table, TEXT } from "./table.ts";

/** The namespace of names that every team can use without a prefix, such as `base`. */
export const GLOBAL_NAMESPACE = "";

/** Null also for a value that this version of the server does not know. */
export const RUNTIME_NAME = {
  read: (stored: unknown): RuntimeName | null => (typeof stored === "string" && isRuntimeName(stored) ? stored : null),
  write: (name: RuntimeName | null) => name,
};

export const templates = new Table({
  id: TEXT,
  /** Null: built in; or its team was deleted, and sandboxes of others still run from it. */
  teamId: orNull(TEXT),
  public: { ...BOOLEAN, column: "is_public" },
  /** Sandboxes of its default build in the ready pool. For built-in templates the server decides. */
  keptReady: INTEGER,
  /** The isolation runtime, if the operator chose one; null: the server's default. */
  wall: RUNTIME_NAME,
  createdAt: INTEGER,
  updatedAt: INTEGER,
  createdBy: orNull(TEXT),
  spawnCount: INTEGER,
  lastSpawnedAt: orNull(INTEGER),
  buildCount: INTEGER,
});

export type Template = Stored<typeof templates>;
type NewTemplate = Pick<Template, "id" | "teamId" | "createdAt" | "createdBy"> & Partial<Template>;

/** A template with a summary of its names and builds. */
export interface TemplateOverview extends Template {
  /** Slug of its team; null when it is built in. */
  teamSlug: string | null;
  /** `namespace/alias`, or `alias` for a global name. */
  names: string[];
  builds: { status: string; image: string | null; checkpoint: string | null }[];
}

/** A build under a tag of its template, for lists of snapshots. */
const taggedSnapshots = new Table({ templateId: TEXT, tag: TEXT, createdAt: INTEGER });
export type TaggedSnapshot = Stored<typeof taggedSnapshots>;

export interface SnapshotFilter {
  teamId: string;
  /** Undefined: of all sandboxes. */
  sandboxId: string | undefined;
  templateId: string | undefined;
  tag: string | undefined;
}

export function templatesIn(sql: Statement) {
  const { first, all, execute, changed, texts } = templates.over(sql);
  const taggedRows = taggedSnapshots.over(sql);
  return {
    /** Private, without sandboxes in the ready pool and without builds, unless given. */
    async add(given: NewTemplate): Promise<Template> {
      const counts = { spawnCount: 0, lastSpawnedAt: null, buildCount: 0 };
      const blank = { public: false, keptReady: 0, wall: null, updatedAt: given.createdAt };
      const template = { ...blank, ...counts, ...given };
      await sql`INSERT INTO templates ${templates.values(template)}`;
      return template;
    },

    byId: (id: string) => first`SELECT * FROM templates WHERE id = ${id} AND deleted_at IS NULL`,

    /** Includes deleted templates, for the sandboxes created from them. */
    everById: (id: string) => first`SELECT * FROM templates WHERE id = ${id}`,

    byAlias: (namespace: string, alias: string) => first`SELECT templates.* FROM template_aliases
        JOIN templates ON templates.id = template_aliases.template_id
        WHERE template_aliases.namespace = ${namespace} AND template_aliases.alias = ${alias}`,

    /** Resolves a bare alias: in this namespace, then globally. */
    async byBareAlias(namespace: string, alias: string): Promise<Template | undefined> {
      const { rows } = await sql`SELECT templates.*, template_aliases.namespace AS found_in FROM template_aliases
        JOIN templates ON templates.id = template_aliases.template_id
        WHERE template_aliases.alias = ${alias} AND template_aliases.namespace IN (${namespace}, ${GLOBAL_NAMESPACE})`;
      const found = rows.find((row) => row.found_in === namespace) ?? rows[0];
      return found && templates.read(found);
    },

    builtIn: () => all`SELECT * FROM templates WHERE team_id IS NULL AND deleted_at IS NULL ORDER BY created_at, id`,

    idsOfTeam: (teamId: string) => texts`SELECT id FROM templates
        WHERE team_id = ${teamId} AND deleted_at IS NULL ORDER BY id`,

    /** Templates of every team: built-in ones first, each group oldest first. */
    async overview(): Promise<TemplateOverview[]> {
      const { rows } = await sql`SELECT templates.*, teams.slug FROM templates
        LEFT JOIN teams ON teams.id = templates.team_id WHERE templates.deleted_at IS NULL
        ORDER BY COALESCE(teams.slug, ''), templates.created_at, templates.id`;
      const { rows: aliases } = await sql`SELECT template_id, namespace, alias FROM template_aliases
        ORDER BY position, alias`;
      const { rows: builds } = await sql`SELECT builds.template_id, builds.status, builds.image, builds.checkpoint
        FROM builds JOIN templates ON templates.id = builds.template_id
        WHERE templates.deleted_at IS NULL ORDER BY builds.created_at, builds.id`;
      const [aliasesOf, buildsOf] = [aliases, builds].map((found) => Map.groupBy(found, (row) => row.template_id));
      return rows.map((row) => ({
        ...templates.read(row),
        teamSlug: textOrNull(row.slug),
        names: (aliasesOf?.get(row.id) ?? []).map(({ namespace, alias }) =>
          namespace === GLOBAL_NAMESPACE ? text(alias) : `${text(namespace)}/${text(alias)}`,
        ),
        builds: (buildsOf?.get(row.id) ?? []).map(({ status, image, checkpoint }) => ({
          status: text(status),
          image: textOrNull(image),
          checkpoint: textOrNull(checkpoint),
        })),
      }));
    },

    /** False: it was deleted. */
    noteSpawn: (id: string, at: number) => changed`
        UPDATE templates SET spawn_count = spawn_count + 1, last_spawned_at = ${at}
        WHERE id = ${id} AND deleted_at IS NULL`,

    setKeptReady: (id: string, count: number) => execute`UPDATE templates SET kept_ready = ${count} WHERE id = ${id}`,

    /** Applies to all existing and future builds. Call it inside a transaction. */
    async setRuntime(id: string, runtime: RuntimeName | null): Promise<void> {
      await sql`UPDATE templates SET wall = ${runtime} WHERE id = ${id}`;
      await sql`UPDATE builds SET wall = ${runtime} WHERE template_id = ${id}`;
    },

    /** False: another template has that name. */
    addAlias: (namespace: string, alias: string, templateId: string) => changed`
        INSERT INTO template_aliases (namespace, alias, template_id, position)
        VALUES (${namespace}, ${alias}, ${templateId},
          (SELECT COUNT(*) FROM template_aliases WHERE template_id = ${templateId}))
        ON CONFLICT (namespace, alias) DO NOTHING`,

    /** In the order of assignment, without duplicates. */
    aliasesOf: (templateId: string) => texts`SELECT alias FROM template_aliases WHERE template_id = ${templateId}
        GROUP BY alias ORDER BY MIN(position), alias`,

    /** False: it was deleted. */
    setPublic: (id: string, isPublic: boolean, at: number) => changed`
        UPDATE templates SET is_public = ${isPublic ? 1 : 0}, updated_at = ${at}
        WHERE id = ${id} AND deleted_at IS NULL`,

    removeAliases: (namespace: string, templateId: string) => execute`DELETE FROM template_aliases
        WHERE namespace = ${namespace} AND template_id = ${templateId}`,

    /** Newest first; with equal times by template and tag. */
    async snapshots(
      filter: SnapshotFilter,
      after: TaggedSnapshot | undefined,
      limit: number,
    ): Promise<TaggedSnapshot[]> {
      const from = after ?? { createdAt: Number.MAX_SAFE_INTEGER, templateId: "", tag: "" };
      return taggedRows.all`SELECT template_tags.template_id, template_tags.tag, template_tags.created_at
        FROM template_tags
        JOIN builds ON builds.id = template_tags.build_id
        JOIN templates ON templates.id = template_tags.template_id
        WHERE templates.team_id = ${filter.teamId} AND templates.deleted_at IS NULL AND builds.source_sandbox IS NOT NULL
          AND (${filter.sandboxId ?? ""} = '' OR builds.source_sandbox = ${filter.sandboxId ?? ""})
          AND (${filter.templateId ?? ""} = '' OR template_tags.template_id = ${filter.templateId ?? ""})
          AND (${filter.tag ?? ""} = '' OR template_tags.tag = ${filter.tag ?? ""})
          AND template_tags.created_at <= ${from.createdAt}
          AND (template_tags.created_at < ${from.createdAt} OR template_tags.template_id > ${from.templateId}
            OR (template_tags.template_id = ${from.templateId} AND template_tags.tag > ${from.tag}))
        ORDER BY template_tags.created_at DESC, template_tags.template_id, template_tags.tag LIMIT ${limit}`;
    },

    /** Frees its names, but not its id. */
    async delete(id: string, at: number): Promise<void> {
      // The template's own row is locked first, as everywhere, so that concurrent changes of a template wait for each
      // other.
      await sql`UPDATE templates SET deleted_at = ${at} WHERE id = ${id}`;
      await sql`DELETE FROM template_aliases WHERE template_id = ${id}`;
    },
  };
}
