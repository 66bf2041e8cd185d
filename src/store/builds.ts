/**
 * Builds of templates: their requests, results and tags. A build goes from `waiting` to `building` to `ready` or
 * `error`, each step one compare-and-set, so one of two racing calls wins. Rows are never removed while their team
 * exists, because sandboxes resume with the data of their build.
 */
import { integer, type Statement, sqlPart, text } from "./engine.ts";
import type { VolumeMount } from "./sandboxes.ts";
import { INTEGER, json, orNull, type Stored, Table, TEXT, word } from "./table.ts";
import { RUNTIME_NAME } from "./templates.ts";

type BuildStatus = "waiting" | "building" | "ready" | "error";

export const builds = new Table({
  id: TEXT,
  templateId: TEXT,
  /** Sequence number within its template, from 1, in the order of requests. */
  number: INTEGER,
  /** API version of its request: 1 to 3; 0: made by the server, as for snapshots. */
  generation: INTEGER,
  status: word<BuildStatus>(),
  /** Requested tags, assigned when it becomes ready. */
  tags: json<string[]>(),
  cpuCount: INTEGER,
  memoryMB: INTEGER,
  diskSizeMB: INTEGER,
  /** Name of a root filesystem on the host; null until it exists. */
  image: orNull(TEXT),
  /** Empty until it is ready, like `defaultWorkdir`. */
  defaultUser: TEXT,
  defaultWorkdir: TEXT,
  /** Variables that its sandboxes have in addition to their own. */
  envVars: json<Record<string, string>>(),
  /** Version of the runtime in the checkpoint's memory; null: none, so that sandboxes get the server's version. */
  guestVersion: orNull(TEXT),
  /** The command that runs in its sandboxes from the start. */
  start: { ...orNull(json<BuildStart>()), column: "start_command" },
  /** Its sandboxes start as copies of this checkpoint. Null: they boot from the image. */
  checkpoint: orNull(TEXT),
  /** The sandbox of a snapshot; null: not a snapshot. */
  sourceSandbox: orNull(TEXT),
  /** Volumes of its sandboxes, as the sandbox of the snapshot had them. */
  volumeMounts: json<VolumeMount[]>(),
  /** The isolation runtime, if the operator chose one; null: the server's default. */
  wall: RUNTIME_NAME,
  /** Why it failed. */
  reason: orNull(json<BuildReason>()),
  createdAt: INTEGER,
  updatedAt: INTEGER,
  finishedAt: orNull(INTEGER),
  /** Entries in its log. */
  logCount: INTEGER,
});

export type Build = Stored<typeof builds>;

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
  Pick<Build, "image" | "defaultUser" | "defaultWorkdir"> &
  Partial<BuildResult & Pick<Build, "sourceSandbox" | "volumeMounts" | "wall">>;

const tags = new Table({ tag: TEXT, buildId: TEXT, createdAt: INTEGER });

export function buildsIn(sql: Statement) {
  const { first, all, execute, changed, number } = builds.over(sql);
  const taggedRows = tags.over(sql);
  /** Assigns the tag to this build, unless a later request already has it. */
  async function assign({ id, templateId, number }: Build, tag: string, at: number): Promise<void> {
    await noteUntagged(templateId, tag, id, at);
    await sql`INSERT INTO template_tags (template_id, tag, build_id, created_at, position)
      VALUES (${templateId}, ${tag}, ${id}, ${at}, ${number})
      ON CONFLICT (template_id, tag) DO UPDATE SET build_id = ${id}, created_at = ${at}, position = ${number}
        WHERE template_tags.position < ${number}`;
  }

  /** Dates the loss of a tag: from then on the build counts as superseded. */
  const noteUntagged = (templateId: string, tag: string, by: string, at: number) =>
    execute`UPDATE builds SET updated_at = ${at} WHERE id <> ${by} AND id =
      (SELECT build_id FROM template_tags WHERE template_id = ${templateId} AND tag = ${tag})`;

  /**
   * Locks the template's row before those of builds and tags, as everywhere, so that concurrent changes wait. False: it
   * was deleted.
   */
  const touch = (templateId: string, at: number) => changed`UPDATE templates SET updated_at = ${at}
      WHERE id = ${templateId} AND deleted_at IS NULL`;

  async function touchOf(buildId: string, at: number): Promise<boolean> {
    const { rows } = await sql`SELECT template_id FROM builds WHERE id = ${buildId}`;
    return rows[0] !== undefined && touch(text(rows[0].template_id), at);
  }

  /** Counts the build and locks the template: no other build of it is added or finished until the transaction ends. */
  async function counted(templateId: string, at: number): Promise<Pick<Build, "number" | "wall"> | undefined> {
    const { rows } = await sql`UPDATE templates SET build_count = build_count + 1, updated_at = ${at}
      WHERE id = ${templateId} AND deleted_at IS NULL RETURNING build_count, wall`;
    return rows[0] && { number: integer(rows[0].build_count), wall: RUNTIME_NAME.read(rows[0].wall) };
  }

  return {
    /** Adds a waiting build. Undefined: its template was deleted. Call it inside a transaction. */
    async request(wanted: BuildWanted): Promise<Build | undefined> {
      const place = await counted(wanted.templateId, wanted.createdAt);
      if (place === undefined) return undefined;
      const build = { ...blank(wanted), ...place, status: "waiting" as const };
      await sql`INSERT INTO builds ${builds.values(build)}`;
      return build;
    },

    /** Adds a ready build under its tags. Undefined: its template was deleted. Call it inside a transaction. */
    async addFinished(finished: FinishedBuild): Promise<Build | undefined> {
      const place = await counted(finished.templateId, finished.createdAt);
      if (place === undefined) return undefined;
      const ready = { status: "ready" as const, finishedAt: finished.createdAt };
      const build: Build = { ...blank(finished), ...place, ...finished, ...ready };
      await sql`INSERT INTO builds ${builds.values(build)}`;
      for (const tag of build.tags) await assign(build, tag, finished.createdAt);
      return build;
    },

    byId: (id: string) => first`SELECT * FROM builds WHERE id = ${id}`,

    /**
     * `waiting` → `building`. Undefined: it has already begun, or is over. Call it inside a transaction, together with
     * the changes to other builds of the template, so that concurrent starts are serialised.
     */
    async begin(id: string, start: BuildStart | null, at: number): Promise<Build | undefined> {
      if (!(await touchOf(id, at))) return undefined;
      return first`UPDATE builds SET status = 'building', start_command = ${start && JSON.stringify(start)},
          updated_at = ${at} WHERE id = ${id} AND status = 'waiting' RETURNING *`;
    },

    /**
     * `building` → `ready`, under its tags. Undefined: it no longer builds, or its template was deleted, and the result
     * is not needed. Call it inside a transaction.
     */
    async finish(id: string, result: BuildResult, at: number): Promise<Build | undefined> {
      if (!(await touchOf(id, at))) return undefined;
      const build = await first`UPDATE builds SET status = 'ready', image = ${result.image},
          default_user = ${result.defaultUser}, default_workdir = ${result.defaultWorkdir},
          env_vars = ${JSON.stringify(result.envVars)}, guest_version = ${result.guestVersion},
          checkpoint = ${result.checkpoint}, updated_at = ${at}, finished_at = ${at}
        WHERE id = ${id} AND status = 'building' RETURNING *`;
      if (build === undefined) return undefined;
      for (const tag of build.tags) await assign(build, tag, at);
      return build;
    },

    /** `waiting` or `building` → `error`. Undefined: it is already over. */
    fail: (id: string, reason: BuildReason, at: number) => first`UPDATE builds SET status = 'error',
          reason = ${JSON.stringify(reason)}, updated_at = ${at}, finished_at = ${at}
        WHERE id = ${id} AND status IN ('waiting', 'building') RETURNING *`,

    /** `waiting` → `error`. Undefined: it was started, or is already over. */
    failUnstarted: (id: string, reason: BuildReason, at: number) => first`UPDATE builds SET status = 'error',
          reason = ${JSON.stringify(reason)}, updated_at = ${at}, finished_at = ${at}
        WHERE id = ${id} AND status = 'waiting' RETURNING *`,

    /** Replaces a checkpoint that does not fit any more. False: the build has another one by now. */
    replaceCheckpoint: (
      id: string,
      from: string | null,
      to: { checkpoint: string; guestVersion: string },
      at: number,
    ) => changed`UPDATE builds SET checkpoint = ${to.checkpoint}, guest_version = ${to.guestVersion}, updated_at = ${at}
        WHERE id = ${id} AND status = 'ready' AND COALESCE(checkpoint, '') = ${from ?? ""}
          AND EXISTS (SELECT 1 FROM templates WHERE templates.id = builds.template_id AND deleted_at IS NULL)`,

    /** Environment variables of the newest builds. */
    async variables(limit: number): Promise<Record<string, string>[]> {
      const { rows } = await sql`SELECT env_vars FROM builds ORDER BY created_at DESC, id LIMIT ${limit}`;
      return rows.map((row) => JSON.parse(text(row.env_vars)));
    },

    /** Newest first, below the number `before`. */
    ofTemplate: (templateId: string, before: number | undefined, limit: number) => all`SELECT * FROM builds
        WHERE template_id = ${templateId} AND number < ${before ?? 2_147_483_647} ORDER BY number DESC LIMIT ${limit}`,

    /** Builds that are waiting or building; of one template, or of all. Oldest first. */
    async unfinished(status: "waiting" | "building", templateId?: string): Promise<Build[]> {
      const ofTemplate = templateId === undefined ? sqlPart`1 = 1` : sqlPart`template_id = ${templateId}`;
      return all`SELECT * FROM builds WHERE status = ${status} AND ${ofTemplate}
        ORDER BY created_at, template_id, number`;
    },

    unfinishedOf: (
      teamId: string,
    ) => all`SELECT builds.* FROM builds JOIN templates ON templates.id = builds.template_id
        WHERE builds.status IN ('waiting', 'building') AND templates.team_id = ${teamId}`,

    /** Waiting builds of teams that were requested at or before this time. */
    waitingOfTeams: (requestedBefore: number) => all`SELECT builds.* FROM builds
        JOIN templates ON templates.id = builds.template_id
        WHERE builds.status = 'waiting' AND templates.team_id IS NOT NULL AND builds.created_at <= ${requestedBefore}`,

    /** Waiting builds of built-in templates, oldest first. */
    waitingOfNoTeam: () => all`SELECT builds.* FROM builds JOIN templates ON templates.id = builds.template_id
        WHERE builds.status = 'waiting' AND templates.team_id IS NULL
        ORDER BY builds.created_at, builds.template_id, builds.number`,

    countUnfinished: (status: "waiting" | "building", teamId: string) => number`SELECT COUNT(*) AS builds FROM builds
        JOIN templates ON templates.id = builds.template_id
        WHERE builds.status = ${status} AND templates.team_id = ${teamId}`,

    readyOf: (templateId: string) => all`SELECT * FROM builds WHERE template_id = ${templateId} AND status = 'ready'
        ORDER BY number`,

    /** `ready` → `error`: its root filesystem is gone. Its tags have no effect from now on. */
    markLost: (id: string, reason: BuildReason, at: number) => execute`UPDATE builds SET status = 'error',
          reason = ${JSON.stringify(reason)}, checkpoint = NULL, updated_at = ${at}
        WHERE id = ${id} AND status = 'ready'`,

    ready: (templateId: string, buildId: string) => first`SELECT * FROM builds
        WHERE template_id = ${templateId} AND id = ${buildId} AND status = 'ready'`,

    tagged: (templateId: string, tag: string) => first`SELECT builds.* FROM template_tags
        JOIN builds ON builds.id = template_tags.build_id
        WHERE template_tags.template_id = ${templateId} AND template_tags.tag = ${tag} AND builds.status = 'ready'`,

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
    tagsOf: (templateId: string) => taggedRows.all`SELECT tag, build_id, created_at FROM template_tags
        WHERE template_id = ${templateId} ORDER BY tag`,

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
