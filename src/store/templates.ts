/** Templates, the names they answer to, and their builds. */
import { integer, integerOrNull, type Row, type Statement, text, textOrNull } from "./engine.ts";

/** The namespace of names that every team can use without a prefix, such as `base`. */
export const GLOBAL_NAMESPACE = "";

export interface Template {
  id: string;
  /** Null: built in, owned by nobody. */
  teamId: string | null;
  public: boolean;
  /** Name of a root filesystem on the host. */
  image: string;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
  defaultUser: string;
  defaultWorkdir: string;
  createdAt: number;
  updatedAt: number;
  createdBy: string | null;
  spawnCount: number;
  lastSpawnedAt: number | null;
  buildCount: number;
}

export interface Build {
  id: string;
  templateId: string;
  status: "waiting" | "building" | "ready" | "error" | "uploaded";
  createdAt: number;
  /**
   * A snapshot: its sandboxes start as copies of what is in this checkpoint. Null: they boot from the template's image.
   */
  checkpoint: string | null;
  /** The sandbox that a snapshot is of. */
  sourceSandbox: string | null;
  /** Variables that its sandboxes have besides their own. */
  envVars: Record<string, string>;
}

/** A build that is no snapshot needs to say nothing about one. */
type NewBuild = Pick<Build, "id" | "templateId" | "status" | "createdAt"> & Partial<Build>;

/** A build under a tag of its template, as lists of snapshots show it. */
export interface TaggedSnapshot {
  templateId: string;
  tag: string;
  createdAt: number;
}

export interface SnapshotFilter {
  teamId: string;
  /** Of this sandbox; undefined for all. */
  sandboxId: string | undefined;
  templateId: string | undefined;
  tag: string | undefined;
}

/** What a start decides anew about a template. */
export type TemplateResources = Pick<
  Template,
  "image" | "cpuCount" | "memoryMB" | "diskSizeMB" | "defaultUser" | "defaultWorkdir"
>;

export function templatesIn(sql: Statement) {
  return {
    async add(template: Template): Promise<void> {
      await sql`INSERT INTO templates (id, team_id, is_public, image, cpu_count, memory_mb, disk_size_mb, default_user,
          default_workdir, created_at, updated_at, created_by, spawn_count, last_spawned_at, build_count)
        VALUES (${template.id}, ${template.teamId}, ${template.public ? 1 : 0}, ${template.image}, ${template.cpuCount},
          ${template.memoryMB}, ${template.diskSizeMB}, ${template.defaultUser}, ${template.defaultWorkdir},
          ${template.createdAt}, ${template.updatedAt}, ${template.createdBy}, ${template.spawnCount},
          ${template.lastSpawnedAt}, ${template.buildCount})`;
    },

    async byId(id: string): Promise<Template | undefined> {
      const { rows } = await sql`SELECT * FROM templates WHERE id = ${id} AND deleted_at IS NULL`;
      return rows[0] && readTemplate(rows[0]);
    },

    /** Also one that has been deleted, for the sake of the sandboxes that were made from it. */
    async everById(id: string): Promise<Template | undefined> {
      const { rows } = await sql`SELECT * FROM templates WHERE id = ${id}`;
      return rows[0] && readTemplate(rows[0]);
    },

    async byAlias(namespace: string, alias: string): Promise<Template | undefined> {
      const { rows } = await sql`SELECT templates.* FROM template_aliases
        JOIN templates ON templates.id = template_aliases.template_id
        WHERE template_aliases.namespace = ${namespace} AND template_aliases.alias = ${alias}`;
      return rows[0] && readTemplate(rows[0]);
    },

    async builtIn(): Promise<Template[]> {
      const { rows } = await sql`SELECT * FROM templates WHERE team_id IS NULL ORDER BY created_at, id`;
      return rows.map(readTemplate);
    },

    async setResources(id: string, to: TemplateResources, at: number): Promise<void> {
      await sql`UPDATE templates SET image = ${to.image}, cpu_count = ${to.cpuCount}, memory_mb = ${to.memoryMB},
          disk_size_mb = ${to.diskSizeMB}, default_user = ${to.defaultUser}, default_workdir = ${to.defaultWorkdir},
          updated_at = ${at} WHERE id = ${id}`;
    },

    /** Says false when it has been deleted. */
    async noteSpawn(id: string, at: number): Promise<boolean> {
      const { count } = await sql`UPDATE templates SET spawn_count = spawn_count + 1, last_spawned_at = ${at}
        WHERE id = ${id} AND deleted_at IS NULL`;
      return count === 1;
    },

    /** Says false when another template has that name already. */
    async addAlias(namespace: string, alias: string, templateId: string): Promise<boolean> {
      const { count } = await sql`INSERT INTO template_aliases (namespace, alias, template_id, position)
        VALUES (${namespace}, ${alias}, ${templateId},
          (SELECT COUNT(*) FROM template_aliases WHERE template_id = ${templateId}))
        ON CONFLICT (namespace, alias) DO NOTHING`;
      return count === 1;
    },

    /** In the order in which they were given. */
    async aliasesOf(templateId: string): Promise<string[]> {
      const { rows } = await sql`SELECT alias FROM template_aliases WHERE template_id = ${templateId}
        ORDER BY position, alias`;
      return rows.map((row) => text(row.alias));
    },

    async addBuild(build: NewBuild): Promise<void> {
      await sql`INSERT INTO builds (id, template_id, status, created_at, checkpoint, source_sandbox, env_vars)
        VALUES (${build.id}, ${build.templateId}, ${build.status}, ${build.createdAt},
          ${build.checkpoint ?? null}, ${build.sourceSandbox ?? null}, ${JSON.stringify(build.envVars ?? {})})`;
      await sql`UPDATE templates SET build_count = build_count + 1 WHERE id = ${build.templateId}`;
    },

    async newestReadyBuild(templateId: string): Promise<Build | undefined> {
      const { rows } = await sql`SELECT * FROM builds WHERE template_id = ${templateId} AND status = 'ready'
        ORDER BY created_at DESC, id LIMIT 1`;
      return rows[0] && readBuild(rows[0]);
    },

    async readyBuild(templateId: string, buildId: string): Promise<Build | undefined> {
      const { rows } = await sql`SELECT * FROM builds
        WHERE template_id = ${templateId} AND id = ${buildId} AND status = 'ready'`;
      return rows[0] && readBuild(rows[0]);
    },

    /** From now on the tag means this build. */
    async tagBuild(templateId: string, tag: string, buildId: string, at: number): Promise<void> {
      await sql`INSERT INTO template_tags (template_id, tag, build_id, created_at)
        VALUES (${templateId}, ${tag}, ${buildId}, ${at})
        ON CONFLICT (template_id, tag) DO UPDATE SET build_id = ${buildId}, created_at = ${at}`;
    },

    async taggedBuild(templateId: string, tag: string): Promise<Build | undefined> {
      const { rows } = await sql`SELECT builds.* FROM template_tags JOIN builds ON builds.id = template_tags.build_id
        WHERE template_tags.template_id = ${templateId} AND template_tags.tag = ${tag} AND builds.status = 'ready'`;
      return rows[0] && readBuild(rows[0]);
    },

    /** Newest first; with equal times by template and tag. */
    async snapshots(
      filter: SnapshotFilter,
      after: TaggedSnapshot | undefined,
      limit: number,
    ): Promise<TaggedSnapshot[]> {
      const from = after ?? { createdAt: Number.MAX_SAFE_INTEGER, templateId: "", tag: "" };
      const { rows } = await sql`SELECT template_tags.template_id, template_tags.tag, template_tags.created_at
        FROM template_tags
        JOIN builds ON builds.id = template_tags.build_id
        JOIN templates ON templates.id = template_tags.template_id
        WHERE templates.team_id = ${filter.teamId} AND templates.deleted_at IS NULL AND builds.checkpoint IS NOT NULL
          AND (${filter.sandboxId ?? ""} = '' OR builds.source_sandbox = ${filter.sandboxId ?? ""})
          AND (${filter.templateId ?? ""} = '' OR template_tags.template_id = ${filter.templateId ?? ""})
          AND (${filter.tag ?? ""} = '' OR template_tags.tag = ${filter.tag ?? ""})
          AND template_tags.created_at <= ${from.createdAt}
          AND (template_tags.created_at < ${from.createdAt} OR template_tags.template_id > ${from.templateId}
            OR (template_tags.template_id = ${from.templateId} AND template_tags.tag > ${from.tag}))
        ORDER BY template_tags.created_at DESC, template_tags.template_id, template_tags.tag LIMIT ${limit}`;
      return rows.map((row) => ({
        templateId: text(row.template_id),
        tag: text(row.tag),
        createdAt: integer(row.created_at),
      }));
    },

    /** The checkpoints of every snapshot that has not been deleted. */
    async checkpoints(): Promise<string[]> {
      const { rows } =
        await sql`SELECT builds.checkpoint FROM builds JOIN templates ON templates.id = builds.template_id
        WHERE builds.checkpoint IS NOT NULL AND templates.deleted_at IS NULL`;
      return rows.map((row) => text(row.checkpoint));
    },

    async checkpointsOf(templateId: string): Promise<string[]> {
      const { rows } = await sql`SELECT checkpoint FROM builds
        WHERE template_id = ${templateId} AND checkpoint IS NOT NULL`;
      return rows.map((row) => text(row.checkpoint));
    },

    /** Its names are free again, its id is not. */
    async delete(id: string, at: number): Promise<void> {
      await sql`DELETE FROM template_aliases WHERE template_id = ${id}`;
      await sql`UPDATE templates SET deleted_at = ${at} WHERE id = ${id}`;
    },
  };
}

function readTemplate(row: Row): Template {
  return {
    id: text(row.id),
    teamId: textOrNull(row.team_id),
    public: integer(row.is_public) === 1,
    image: text(row.image),
    cpuCount: integer(row.cpu_count),
    memoryMB: integer(row.memory_mb),
    diskSizeMB: integer(row.disk_size_mb),
    defaultUser: text(row.default_user),
    defaultWorkdir: text(row.default_workdir),
    createdAt: integer(row.created_at),
    updatedAt: integer(row.updated_at),
    createdBy: textOrNull(row.created_by),
    spawnCount: integer(row.spawn_count),
    lastSpawnedAt: integerOrNull(row.last_spawned_at),
    buildCount: integer(row.build_count),
  };
}

function readBuild(row: Row): Build {
  return {
    id: text(row.id),
    templateId: text(row.template_id),
    status: text(row.status) as Build["status"],
    createdAt: integer(row.created_at),
    checkpoint: textOrNull(row.checkpoint),
    sourceSandbox: textOrNull(row.source_sandbox),
    envVars: JSON.parse(text(row.env_vars)),
  };
}
