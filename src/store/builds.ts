/**
 * Builds of templates: their requests, results and tags. A build goes from `waiting` to `building` to `ready` or
 * `error`, each step one compare-and-set, so one of two racing calls wins. Rows are never removed while their team
 * exists, because sandboxes resume with the data of their build.
 */
import type { RuntimeName } from "../contract/runtime-name.ts";
import { integer, integerOrNull, type Row, type Statement, sqlPart, text, textOrNull } from "./engine.ts";
import type { VolumeMount } from "./sandboxes.ts";
import { readRuntimeName } from "./templates.ts";

type BuildStatus = "waiting" | "building" | "ready" | "error";

export interface Build {
  id: string;
  templateId: string;
  /** Sequence number within its template, from 1, in the order of requests. */
  number: number;
  /** API version of its request: 1 to 3; 0: made by the server, as for snapshots. */
  generation: number;
  status: BuildStatus;
  /** Requested tags, assigned when it becomes ready. */
  tags: string[];
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
  /** Name of a root filesystem on the host; null until it exists. */
  image: string | null;
  /** Empty until it is ready, like `defaultWorkdir`. */
  defaultUser: string;
  defaultWorkdir: string;
  /** Variables that its sandboxes have in addition to their own. */
  envVars: Record<string, string>;
  /** Version of the runtime in the checkpoint's memory; null: sandboxes get the server's version. */
  guestVersion: string | null;
  /** The command that runs in its sandboxes from the start. */
  start: BuildStart | null;
  /** Its sandboxes start as copies of this checkpoint. Null: they boot from the image. */
  checkpoint: string | null;
  /** The sandbox of a snapshot; null: not a snapshot. */
  sourceSandbox: string | null;
  /** Volumes of its sandboxes, as the sandbox of the snapshot had them. */
  volumeMounts: VolumeMount[];
  /** The isolation runtime, if the operator chose one; null: the server's default. */
  wall: RuntimeName | null;
  /** Why it failed. */
  reason: BuildReason | null;
  createdAt: number;
  updatedAt: number;
  finishedAt: number | null;
  /** Entries in its log. */
  logCount: number;
}

interface BuildStart {
  command: string;
  ready: string | null;
}

interface BuildReason {
  message: string;
  /** `base`, `finalize`, or the number of a step; null: no step. */
  step: string | null;
}

/** A requested build. */
export type BuildWanted = Pick<
  Build,
  "id" | "templateId" | "generation" | "tags" | "cpuCount" | "memoryMB" | "diskSizeMB" | "createdAt"
>;

/** The data that its sandboxes start with. */
export type BuildResult = Pick<
  Build,
  "image" | "defaultUser" | "defaultWorkdir" | "envVars" | "guestVersion" | "checkpoint"
>;

/** A build that is ready at once, as for built-in templates and snapshots. */
export type FinishedBuild = BuildWanted &
  BuildResult &
  Pick<Build, "sourceSandbox"> &
  Partial<Pick<Build, "volumeMounts" | "wall">>;

interface Tag {
  tag: string;
  buildId: string;
  createdAt: number;
}

export function buildsIn(sql: Statement) {
  /** Assigns the tag to this build, unless a later request already has it. */
  async function assign({ id, templateId, number }: Build, tag: string, at: number): Promise<void> {
    await noteUntagged(templateId, tag, id, at);
    await sql`INSERT INTO template_tags (template_id, tag, build_id, created_at, position)
      VALUES (${templateId}, ${tag}, ${id}, ${at}, ${number})
      ON CONFLICT (template_id, tag) DO UPDATE SET build_id = ${id}, created_at = ${at}, position = ${number}
        WHERE template_tags.position < ${number}`;
  }

  /** Dates the loss of a tag: from then on the build counts as superseded. */
  async function noteUntagged(templateId: string, tag: string, by: string, at: number): Promise<void> {
    await sql`UPDATE builds SET updated_at = ${at} WHERE id <> ${by} AND id =
      (SELECT build_id FROM template_tags WHERE template_id = ${templateId} AND tag = ${tag})`;
  }

  /**
   * Locks the template's row before those of builds and tags, as everywhere, so that concurrent changes wait. False: it
   * was deleted.
   */
  async function touch(templateId: string, at: number): Promise<boolean> {
    const { count } = await sql`UPDATE templates SET updated_at = ${at}
      WHERE id = ${templateId} AND deleted_at IS NULL`;
    return count === 1;
  }

  async function touchOf(buildId: string, at: number): Promise<boolean> {
    const { rows } = await sql`SELECT template_id FROM builds WHERE id = ${buildId}`;
    return rows[0] !== undefined && touch(text(rows[0].template_id), at);
  }

  /** Counts the build and locks the template: no other build of it is added or finished until the transaction ends. */
  async function counted(templateId: string, at: number): Promise<Pick<Build, "number" | "wall"> | undefined> {
    const { rows } = await sql`UPDATE templates SET build_count = build_count + 1, updated_at = ${at}
      WHERE id = ${templateId} AND deleted_at IS NULL RETURNING build_count, wall`;
    return rows[0] && { number: integer(rows[0].build_count), wall: readRuntimeName(rows[0].wall) };
  }

  async function insert(build: Build): Promise<void> {
    await sql`INSERT INTO builds (id, template_id, number, generation, status, tags, cpu_count, memory_mb, disk_size_mb,
        image, default_user, default_workdir, env_vars, guest_version, checkpoint, source_sandbox, volume_mounts,
        wall, created_at, updated_at, finished_at)
      VALUES (${build.id}, ${build.templateId}, ${build.number}, ${build.generation}, ${build.status},
        ${JSON.stringify(build.tags)}, ${build.cpuCount}, ${build.memoryMB}, ${build.diskSizeMB}, ${build.image},
        ${build.defaultUser}, ${build.defaultWorkdir}, ${JSON.stringify(build.envVars)}, ${build.guestVersion},
        ${build.checkpoint}, ${build.sourceSandbox}, ${JSON.stringify(build.volumeMounts)}, ${build.wall},
        ${build.createdAt}, ${build.updatedAt}, ${build.finishedAt})`;
  }

  return {
    /** Adds a waiting build. Undefined: its template was deleted. Call it inside a transaction. */
    async request(wanted: BuildWanted): Promise<Build | undefined> {
      const place = await counted(wanted.templateId, wanted.createdAt);
      if (place === undefined) return undefined;
      const build = { ...blank(wanted), ...place, status: "waiting" as const };
      await insert(build);
      return build;
    },

    /** Adds a ready build under its tags. Undefined: its template was deleted. Call it inside a transaction. */
    async addFinished(finished: FinishedBuild): Promise<Build | undefined> {
      const place = await counted(finished.templateId, finished.createdAt);
      if (place === undefined) return undefined;
      const ready = { status: "ready" as const, finishedAt: finished.createdAt };
      const build: Build = { ...blank(finished), ...place, ...finished, ...ready };
      await insert(build);
      for (const tag of build.tags) await assign(build, tag, finished.createdAt);
      return build;
    },

    async byId(id: string): Promise<Build | undefined> {
      const { rows } = await sql`SELECT * FROM builds WHERE id = ${id}`;
      return rows[0] && readBuild(rows[0]);
    },

    /**
     * `waiting` → `building`. Undefined: it has already begun, or is over. Call it inside a transaction, together with
     * the changes to other builds of the template, so that concurrent starts are serialised.
     */
    async begin(id: string, start: BuildStart | null, at: number): Promise<Build | undefined> {
      if (!(await touchOf(id, at))) return undefined;
      const { rows } =
        await sql`UPDATE builds SET status = 'building', start_command = ${start && JSON.stringify(start)},
          updated_at = ${at} WHERE id = ${id} AND status = 'waiting' RETURNING *`;
      return rows[0] && readBuild(rows[0]);
    },

    /**
     * `building` → `ready`, under its tags. Undefined: it no longer builds, or its template was deleted, and the result
     * is not needed. Call it inside a transaction.
     */
    async finish(id: string, result: BuildResult, at: number): Promise<Build | undefined> {
      if (!(await touchOf(id, at))) return undefined;
      const { rows } = await sql`UPDATE builds SET status = 'ready', image = ${result.image},
          default_user = ${result.defaultUser}, default_workdir = ${result.defaultWorkdir},
          env_vars = ${JSON.stringify(result.envVars)}, guest_version = ${result.guestVersion},
          checkpoint = ${result.checkpoint}, updated_at = ${at}, finished_at = ${at}
        WHERE id = ${id} AND status = 'building' RETURNING *`;
      if (rows[0] === undefined) return undefined;
      const build = readBuild(rows[0]);
      for (const tag of build.tags) await assign(build, tag, at);
      return build;
    },

    /** `waiting` or `building` → `error`. Undefined: it is already over. */
    async fail(id: string, reason: BuildReason, at: number): Promise<Build | undefined> {
      const { rows } = await sql`UPDATE builds SET status = 'error', reason = ${JSON.stringify(reason)},
          updated_at = ${at}, finished_at = ${at}
        WHERE id = ${id} AND status IN ('waiting', 'building') RETURNING *`;
      return rows[0] && readBuild(rows[0]);
    },

    /** `waiting` → `error`. Undefined: it was started, or is already over. */
    async failUnstarted(id: string, reason: BuildReason, at: number): Promise<Build | undefined> {
      const { rows } = await sql`UPDATE builds SET status = 'error', reason = ${JSON.stringify(reason)},
          updated_at = ${at}, finished_at = ${at}
        WHERE id = ${id} AND status = 'waiting' RETURNING *`;
      return rows[0] && readBuild(rows[0]);
    },

    /** Replaces a checkpoint that does not fit any more. False: the build has another one by now. */
    async replaceCheckpoint(
      id: string,
      from: string | null,
      to: { checkpoint: string; guestVersion: string },
      at: number,
    ): Promise<boolean> {
      const { count } = await sql`UPDATE builds SET checkpoint = ${to.checkpoint}, guest_version = ${to.guestVersion},
          updated_at = ${at}
        WHERE id = ${id} AND status = 'ready' AND COALESCE(checkpoint, '') = ${from ?? ""}
          AND EXISTS (SELECT 1 FROM templates WHERE templates.id = builds.template_id AND deleted_at IS NULL)`;
      return count === 1;
    },

    /** Newest first, below the number `before`. */
    async ofTemplate(templateId: string, before: number | undefined, limit: number): Promise<Build[]> {
      const { rows } = await sql`SELECT * FROM builds
        WHERE template_id = ${templateId} AND number < ${before ?? 2_147_483_647} ORDER BY number DESC LIMIT ${limit}`;
      return rows.map(readBuild);
    },

    /** Builds that are waiting or building; of one template, or of all. Oldest first. */
    async unfinished(status: "waiting" | "building", templateId?: string): Promise<Build[]> {
      const ofTemplate = templateId === undefined ? sqlPart`1 = 1` : sqlPart`template_id = ${templateId}`;
      const { rows } = await sql`SELECT * FROM builds WHERE status = ${status} AND ${ofTemplate}
        ORDER BY created_at, template_id, number`;
      return rows.map(readBuild);
    },

    /** Waiting builds of teams that were requested at or before this time. */
    async waitingOfTeams(requestedBefore: number): Promise<Build[]> {
      const { rows } = await sql`SELECT builds.* FROM builds JOIN templates ON templates.id = builds.template_id
        WHERE builds.status = 'waiting' AND templates.team_id IS NOT NULL AND builds.created_at <= ${requestedBefore}`;
      return rows.map(readBuild);
    },

    /** Waiting builds of built-in templates, oldest first. */
    async waitingOfNoTeam(): Promise<Build[]> {
      const { rows } = await sql`SELECT builds.* FROM builds JOIN templates ON templates.id = builds.template_id
        WHERE builds.status = 'waiting' AND templates.team_id IS NULL
        ORDER BY builds.created_at, builds.template_id, builds.number`;
      return rows.map(readBuild);
    },

    async countUnfinished(status: "waiting" | "building", teamId: string): Promise<number> {
      const { rows } =
        await sql`SELECT COUNT(*) AS builds FROM builds JOIN templates ON templates.id = builds.template_id
        WHERE builds.status = ${status} AND templates.team_id = ${teamId}`;
      return integer(rows[0]?.builds);
    },

    async readyOf(templateId: string): Promise<Build[]> {
      const { rows } = await sql`SELECT * FROM builds WHERE template_id = ${templateId} AND status = 'ready'
        ORDER BY number`;
      return rows.map(readBuild);
    },

    /** `ready` → `error`: its root filesystem is gone. Its tags have no effect from now on. */
    async lose(id: string, reason: BuildReason, at: number): Promise<void> {
      await sql`UPDATE builds SET status = 'error', reason = ${JSON.stringify(reason)}, checkpoint = NULL,
        updated_at = ${at} WHERE id = ${id} AND status = 'ready'`;
    },

    async ready(templateId: string, buildId: string): Promise<Build | undefined> {
      const { rows } = await sql`SELECT * FROM builds
        WHERE template_id = ${templateId} AND id = ${buildId} AND status = 'ready'`;
      return rows[0] && readBuild(rows[0]);
    },

    async tagged(templateId: string, tag: string): Promise<Build | undefined> {
      const { rows } = await sql`SELECT builds.* FROM template_tags JOIN builds ON builds.id = template_tags.build_id
        WHERE template_tags.template_id = ${templateId} AND template_tags.tag = ${tag} AND builds.status = 'ready'`;
      return rows[0] && readBuild(rows[0]);
    },

    /** Assigns the tag to this build, overriding all earlier requests. */
    async tag(templateId: string, tag: string, buildId: string, at: number): Promise<void> {
      await touch(templateId, at);
      await noteUntagged(templateId, tag, buildId, at);
      await sql`INSERT INTO template_tags (template_id, tag, build_id, created_at, position)
        SELECT id, ${tag}, ${buildId}, ${at}, build_count FROM templates WHERE id = ${templateId}
        ON CONFLICT (template_id, tag) DO UPDATE SET build_id = EXCLUDED.build_id, created_at = EXCLUDED.created_at,
          position = EXCLUDED.position`;
    },

    async untag(templateId: string, tag: string, at: number): Promise<void> {
      await touch(templateId, at);
      await noteUntagged(templateId, tag, "", at);
      await sql`DELETE FROM template_tags WHERE template_id = ${templateId} AND tag = ${tag}`;
    },

    /** Sorted by name. */
    async tagsOf(templateId: string): Promise<Tag[]> {
      const { rows } = await sql`SELECT tag, build_id, created_at FROM template_tags
        WHERE template_id = ${templateId} ORDER BY tag`;
      return rows.map((row) => ({
        tag: text(row.tag),
        buildId: text(row.build_id),
        createdAt: integer(row.created_at),
      }));
    },

    /** Whether sandboxes of any of its builds would have volumes. */
    async haveVolumes(templateId: string): Promise<boolean> {
      const { rows } = await sql`SELECT 1 AS found FROM builds
        WHERE template_id = ${templateId} AND status = 'ready' AND volume_mounts <> '[]' LIMIT 1`;
      return rows.length > 0;
    },
  };
}

/** A build without a result. */
function blank(wanted: BuildWanted): Omit<Build, "status" | "number" | "wall"> {
  const { id, templateId, generation, tags, cpuCount, memoryMB, diskSizeMB, createdAt } = wanted;
  return {
    id,
    templateId,
    generation,
    tags,
    cpuCount,
    memoryMB,
    diskSizeMB,
    image: null,
    defaultUser: "",
    defaultWorkdir: "",
    envVars: {},
    guestVersion: null,
    start: null,
    checkpoint: null,
    sourceSandbox: null,
    volumeMounts: [],
    reason: null,
    createdAt,
    updatedAt: createdAt,
    finishedAt: null,
    logCount: 0,
  };
}

export function readBuild(row: Row): Build {
  const [start, reason] = [textOrNull(row.start_command), textOrNull(row.reason)];
  return {
    id: text(row.id),
    templateId: text(row.template_id),
    number: integer(row.number),
    generation: integer(row.generation),
    status: text(row.status) as BuildStatus,
    tags: JSON.parse(text(row.tags)),
    cpuCount: integer(row.cpu_count),
    memoryMB: integer(row.memory_mb),
    diskSizeMB: integer(row.disk_size_mb),
    image: textOrNull(row.image),
    defaultUser: text(row.default_user),
    defaultWorkdir: text(row.default_workdir),
    envVars: JSON.parse(text(row.env_vars)),
    guestVersion: textOrNull(row.guest_version),
    start: start === null ? null : JSON.parse(start),
    checkpoint: textOrNull(row.checkpoint),
    sourceSandbox: textOrNull(row.source_sandbox),
    volumeMounts: JSON.parse(text(row.volume_mounts)),
    wall: readRuntimeName(row.wall),
    reason: reason === null ? null : JSON.parse(reason),
    createdAt: integer(row.created_at),
    updatedAt: integer(row.updated_at),
    finishedAt: integerOrNull(row.finished_at),
    logCount: integer(row.log_count),
  };
}
