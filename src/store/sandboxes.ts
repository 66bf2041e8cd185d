/**
 * Sandbox rows. Every change of state is one compare-and-set on (id, state, execution id) whose result says which call
 * won: kill, expiry, pause, resume, snapshot and loss may race, and exactly one of them acts. A kill during a
 * transition leaves a request in the row. The end of the transition carries it out, because every `finish…` and
 * `abandon…` goes to `killing` instead when it finds the request.
 */
import { integer, integerOrNull, type SqlPart, type Statement, sqlPart, text } from "./engine.ts";
import { BOOLEAN, INTEGER, json, orNull, type Stored, Table, TEXT, word } from "./table.ts";

/** Failed automatic pauses before memory is given up. */
const AUTO_PAUSE_PUT_OFFS_MAX = 3;

export type SandboxState = "running" | "pausing" | "paused" | "resuming" | "snapshotting" | "killing";

/** The columns for lists: no secrets, and nothing of a size that tenants control, which would inflate a page. */
const listedColumns = {
  id: TEXT,
  teamId: TEXT,
  templateId: TEXT,
  buildId: TEXT,
  /** The template's first alias when the sandbox was created. */
  alias: TEXT,
  state: word<SandboxState>(),
  /** Differs between runs, so that a late change of an earlier run cannot affect this one. */
  executionId: TEXT,
  createdAt: INTEGER,
  /** Start of the current or last run. */
  startedAt: INTEGER,
  /** When the run ends, or would have ended without the pause. */
  endAt: INTEGER,
  /** When the pause began; null while it runs. */
  pausedAt: orNull(INTEGER),
  /** Checkpoint of a paused sandbox, or the one being written; null while it runs. */
  checkpoint: orNull(TEXT),
  /** Whether the checkpoint holds memory, or only files. */
  checkpointMemory: BOOLEAN,
  /** A kill was requested during a transition; it follows when that ends. */
  killWanted: BOOLEAN,
  /** Failed automatic pauses since a client last set the end. */
  pauseFailures: INTEGER,
  /** As given at create, for a wake by traffic. */
  timeoutSeconds: INTEGER,
  /** At the end of its timeout it is paused, not killed. */
  autoPause: BOOLEAN,
  /** Whether that pause keeps memory. */
  autoPauseMemory: BOOLEAN,
  /** Traffic may wake it. */
  autoResume: BOOLEAN,
  metadata: json<Record<string, string>>(),
  secure: BOOLEAN,
  volumeMounts: json<VolumeMount[]>(),
  cpuCount: INTEGER,
  memoryMB: INTEGER,
  diskSizeMB: INTEGER,
  /** Version of the runtime in it. An older guest runs on after an upgrade of the server. */
  guestVersion: TEXT,
};
const listed = new Table(listedColumns);

export const sandboxes = new Table({
  ...listedColumns,
  envVars: json<Record<string, string>>(),
  /** Access tokens of the runtime, newest last. */
  tokens: json<string[]>(),
  /** Null: not specified. */
  allowInternetAccess: orNull(BOOLEAN),
  network: json<SandboxNetwork>(),
  /** Required for access to its ports; null: none required. Constant for the sandbox's lifetime. */
  trafficToken: orNull(TEXT),
  /** The host may enforce other egress rules than the row says. */
  egressUnsettled: BOOLEAN,
  mcp: orNull(json<Record<string, unknown>>()),
  /** Workload identity tokens that its header rules may refer to, by name. */
  identityTokens: json<Record<string, { audience: string }>>(),
});

/** For the operator: sandboxes of all teams, with the team's name. */
const overview = new Table({
  id: TEXT,
  team: TEXT,
  templateId: TEXT,
  alias: TEXT,
  state: word<SandboxState>(),
  startedAt: INTEGER,
  endAt: INTEGER,
  cpuCount: INTEGER,
  memoryMB: INTEGER,
});
const counted = new Table({ team: TEXT, state: word<SandboxState>(), count: INTEGER, memoryMB: INTEGER });

export type Sandbox = Stored<typeof sandboxes>;
export type SandboxOverview = Stored<typeof overview>;
export type ListedSandboxRow = Stored<typeof listed>;

/** A volume of a sandbox, with the name it was mounted by. */
export interface VolumeMount {
  volumeId: string;
  name: string;
  path: string;
}

/** Network settings as sent; fields that were not sent are absent. */
export interface SandboxNetwork extends EgressSettings {
  allowPublicTraffic?: boolean;
  maskRequestHost?: string;
  httpsPorts?: number[];
}

export interface EgressSettings {
  allowOut?: string[];
  denyOut?: string[];
  egressProxy?: { address: string; username?: string; password?: string };
  /** Headers of HTTPS requests, by host name or `*.` pattern in lower case. Values may hold placeholders. */
  rules?: Record<string, { transform?: { headers?: Record<string, string> } }[]>;
}

/** Identifies one run of a sandbox. */
export interface SandboxRun {
  id: string;
  executionId: string;
}

/** The data of a new run. */
interface NewRun {
  startedAt: number;
  endAt: number;
  tokens: string[];
  autoPause: boolean;
  guestVersion: string;
}

export interface ListFilter {
  teamId: string;
  running: boolean;
  paused: boolean;
  /** Running sandboxes whose end has come count as paused if they have autoPause, else they are left out. */
  now: number;
  /** Inclusive; 0: no limit. */
  startedAfter: number;
  templateId: string | undefined;
}

export interface ListPosition {
  startedAt: number;
  id: string;
}

export type ListOrder = "asc" | "desc";

/** `quick` is for changes that need not survive a crash of the machine, because a running sandbox does not either. */
export function sandboxesIn(sql: Statement, quick: Statement = sql) {
  const { first, all, execute, number, texts } = sandboxes.over(sql);
  const listedRows = listed.over(sql);
  const overviewRows = overview.over(sql);
  const counts = counted.over(sql);
  const quickly = sandboxes.over(quick);
  return {
    add: (sandbox: Sandbox) => execute`INSERT INTO sandboxes ${sandboxes.values(sandbox)}`,
    byId: (id: string) => first`SELECT * FROM sandboxes WHERE id = ${id}`,

    /**
     * Ends the run in any state: at rest it goes to `killing`, in transition the request is recorded. Returns the new
     * row; undefined: another call has done it, or the run is over.
     */
    kill: (run: SandboxRun) => first`UPDATE sandboxes SET kill_wanted = 1,
          state = CASE WHEN state IN ('running', 'paused') THEN 'killing' ELSE state END
        WHERE id = ${run.id} AND state <> 'killing' AND execution_id = ${run.executionId} AND kill_wanted = 0 RETURNING *`,

    /** As `kill`, for a running sandbox. After a crash of the machine it is gone, whatever its row says. */
    killRunning: (run: SandboxRun) => quickly.first`UPDATE sandboxes SET kill_wanted = 1, state = 'killing'
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND kill_wanted = 0 RETURNING *`,

    /**
     * As `kill`, only from `running` and without a request: the run ended on its own, and a pause or snapshot in
     * progress will notice.
     */
    endRunning: (run: SandboxRun) => first`UPDATE sandboxes SET state = 'killing'
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} RETURNING *`,

    /**
     * Moves all running sandboxes whose end has come in one step: to `pausing` with autoPause, else to `killing`.
     * Returns the rows that this call moved. Checkpoint names never repeat: the removal of an abandoned one may be
     * pending.
     */
    takeDue: (now: number) => all`UPDATE sandboxes SET
          state = CASE WHEN auto_pause = 1 THEN 'pausing' ELSE 'killing' END,
          paused_at = CASE WHEN auto_pause = 1 THEN ${now} ELSE paused_at END,
          checkpoint = CASE WHEN auto_pause = 1 THEN execution_id || '-' || ${String(now)} ELSE checkpoint END,
          checkpoint_memory = CASE WHEN auto_pause = 1 AND auto_pause_memory = 1
            AND pause_failures < ${AUTO_PAUSE_PUT_OFFS_MAX} THEN 1 ELSE 0 END
        WHERE state = 'running' AND end_at <= ${now} RETURNING *`,

    /** `running` → `pausing`. Undefined: it no longer runs, or its end has come. */
    beginPause: (run: SandboxRun, to: { checkpoint: string; memory: boolean; now: number }) => first`
        UPDATE sandboxes SET state = 'pausing', checkpoint = ${to.checkpoint},
          checkpoint_memory = ${Number(to.memory)}, paused_at = ${to.now}
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${to.now}
        RETURNING *`,

    /** `pausing` → `paused`. */
    finishPause: (run: SandboxRun) => first`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'paused' END
        WHERE id = ${run.id} AND state = 'pausing' AND execution_id = ${run.executionId} RETURNING *`,

    /**
     * `pausing` → `running`, with its old end. Only for this checkpoint: the same run may be in another pause by now.
     */
    abandonPause: (run: SandboxRun & Pick<Sandbox, "checkpoint">) => first`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END,
          checkpoint = NULL, checkpoint_memory = 0, paused_at = NULL
        WHERE id = ${run.id} AND state = 'pausing' AND execution_id = ${run.executionId}
          AND checkpoint = ${run.checkpoint} RETURNING *`,

    /** As `abandonPause`, for a failed automatic pause: it is retried at `endAt`. */
    putOffPause: (run: SandboxRun, endAt: number) => first`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END,
          checkpoint = NULL, checkpoint_memory = 0, paused_at = NULL,
          end_at = ${endAt}, pause_failures = pause_failures + 1
        WHERE id = ${run.id} AND state = 'pausing' AND execution_id = ${run.executionId} RETURNING *`,

    /**
     * `paused` → `resuming`, with the execution id of the new run. If the machine crashes meanwhile, nothing of that
     * run is left, and the sandbox is paused as before.
     */
    beginResume: (run: SandboxRun, executionId: string) => quickly.first`UPDATE sandboxes SET state = 'resuming',
          execution_id = ${executionId}
        WHERE id = ${run.id} AND state = 'paused' AND execution_id = ${run.executionId} RETURNING *`,

    /** `resuming` → `running`. Unless a kill was requested, the row no longer names the checkpoint. */
    finishResume: (run: SandboxRun, to: NewRun) => first`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END,
          checkpoint = CASE WHEN kill_wanted = 1 THEN checkpoint ELSE NULL END,
          checkpoint_memory = 0, paused_at = NULL, pause_failures = 0, started_at = ${to.startedAt}, end_at = ${to.endAt},
          tokens = ${JSON.stringify(to.tokens)}, auto_pause = ${Number(to.autoPause)}, guest_version = ${to.guestVersion}
        WHERE id = ${run.id} AND state = 'resuming' AND execution_id = ${run.executionId} RETURNING *`,

    /** `resuming` → `paused`, as before. */
    abandonResume: (run: SandboxRun) => first`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'paused' END
        WHERE id = ${run.id} AND state = 'resuming' AND execution_id = ${run.executionId} RETURNING *`,

    /** `running` → `snapshotting`. Undefined: it no longer runs, or its end has come. */
    beginSnapshot: (run: SandboxRun, now: number) => quickly.first`UPDATE sandboxes SET state = 'snapshotting'
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`,

    /** `snapshotting` → `running`, whether or not the snapshot succeeded. */
    finishSnapshot: (run: SandboxRun) => quickly.first`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END
        WHERE id = ${run.id} AND state = 'snapshotting' AND execution_id = ${run.executionId} RETURNING *`,

    /** Sets the end of a running sandbox. Undefined: it no longer runs, or its end has come. */
    setEnd: (run: SandboxRun, endAt: number, now: number) => first`
        UPDATE sandboxes SET end_at = ${endAt}, pause_failures = 0
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`,

    /** As `setEnd`, but never to an earlier time. */
    extendEnd: (run: SandboxRun, endAt: number, now: number) => first`UPDATE sandboxes SET pause_failures = 0,
          end_at = CASE WHEN end_at < ${endAt} THEN ${endAt} ELSE end_at END
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`,

    /** A row without a checkpoint may reappear after a crash of the machine, and is then removed again. */
    remove: (run: SandboxRun & Pick<Sandbox, "checkpoint">) =>
      (run.checkpoint === null ? quickly : { execute }).execute`DELETE FROM sandboxes
        WHERE id = ${run.id} AND state = 'killing' AND execution_id = ${run.executionId}`,

    /** Sandboxes of all teams, the newest runs first. */
    overview: (limit: number) => overviewRows.all`SELECT sandboxes.id, teams.slug AS team, template_id, alias, state,
          started_at, end_at, cpu_count, memory_mb
        FROM sandboxes JOIN teams ON teams.id = sandboxes.team_id ORDER BY started_at DESC, sandboxes.id LIMIT ${limit}`,

    /** Numbers and memory sizes by team and state. */
    counts: () => counts.all`SELECT teams.slug AS team, state, COUNT(*) AS count, SUM(memory_mb) AS memory_mb
        FROM sandboxes JOIN teams ON teams.id = sandboxes.team_id GROUP BY teams.slug, state`,

    idsOfTeam: (teamId: string) => texts`SELECT id FROM sandboxes WHERE team_id = ${teamId} ORDER BY id`,

    /** Those in memory: their number, and their sizes added up. */
    async allocated(): Promise<{ count: number; cpuCount: number; memoryMB: number }> {
      const { rows } = await sql`SELECT COUNT(*) AS count, COALESCE(SUM(cpu_count), 0) AS cpu_count,
          COALESCE(SUM(memory_mb), 0) AS memory_mb
        FROM sandboxes WHERE state IN ('running', 'pausing', 'resuming', 'snapshotting')`;
      const [row] = rows;
      return { count: integer(row?.count), cpuCount: integer(row?.cpu_count), memoryMB: integer(row?.memory_mb) };
    },

    /** Running sandboxes of each team, by its id. */
    async runningByTeam(now: number): Promise<Record<string, number>> {
      const { rows } = await sql`SELECT team_id, COUNT(*) AS count FROM sandboxes WHERE ${shownRunning(now)}
        GROUP BY team_id ORDER BY team_id`;
      return Object.fromEntries(rows.map((row) => [text(row.team_id), integer(row.count)]));
    },

    inState: (state: SandboxState) => all`SELECT * FROM sandboxes WHERE state = ${state} ORDER BY id`,

    /** A team's sandboxes of a template, without those being ended. */
    countOf: (templateId: string, teamId: string) => number`SELECT COUNT(*) AS sandboxes FROM sandboxes
        WHERE template_id = ${templateId} AND team_id = ${teamId} AND state <> 'killing' AND kill_wanted = 0`,

    /** A team's sandboxes that run or are in transition to or from running, without those being ended. */
    holdingQuota: (teamId: string, now: number) => texts`SELECT id FROM sandboxes
        WHERE team_id = ${teamId} AND ${underWay(now)}`,

    /**
     * The memory sizes of all sandboxes with processes, added up: those that run or are in transition, and the ended
     * ones in `endedIds`. Those in `without` do not count.
     */
    promisedMemoryMB: (endedIds: readonly string[], without: readonly string[]) => number`
        SELECT COALESCE(SUM(memory_mb), 0) AS promised FROM sandboxes
        WHERE (state IN ('running', 'pausing', 'resuming', 'snapshotting') OR id IN (${listOf(endedIds)}))
          AND id NOT IN (${listOf(without)})`,

    /** Ids of running sandboxes with autoPause whose end has not come. */
    withAutoPause: (now: number) => texts`SELECT id FROM sandboxes
        WHERE state = 'running' AND auto_pause = 1 AND end_at > ${now}`,

    /** Running and paused sandboxes with tokens: running ones first, then newest first. */
    async secured(now: number, limit: number): Promise<{ id: string; tokens: string[] }[]> {
      const { rows } = await sql`SELECT id, tokens FROM sandboxes
        WHERE secure = 1 AND (${shownRunning(now)} OR ${shownPaused(now)})
        ORDER BY CASE WHEN ${shownRunning(now)} THEN 0 ELSE 1 END, started_at DESC, id ASC
        LIMIT ${limit}`;
      return rows.map((row) => ({ id: text(row.id), tokens: JSON.parse(text(row.tokens)) }));
    },

    /** Tokens and passwords of the newest sandboxes, and what their clients stored that may hold others. */
    async secrets(limit: number): Promise<{ certain: string[]; possible: object[] }> {
      const { rows } = await sql`SELECT tokens, traffic_token, network, env_vars, mcp FROM sandboxes
        ORDER BY started_at DESC, id LIMIT ${limit}`;
      const parsed = (cell: unknown) => (cell === null ? {} : JSON.parse(text(cell as string)));
      const certain = rows.flatMap((row) => [
        ...parsed(row.tokens),
        ...(row.traffic_token === null ? [] : [text(row.traffic_token)]),
        ...[(parsed(row.network ?? null) as SandboxNetwork).egressProxy?.password ?? []].flat(),
      ]);
      const headers = (row: (typeof rows)[number]) =>
        Object.values((parsed(row.network ?? null) as SandboxNetwork).rules ?? {}).flatMap((rules) =>
          rules.map(({ transform }) => transform?.headers ?? {}),
        );
      const possible = rows.flatMap((row) => [parsed(row.env_vars), parsed(row.mcp ?? null), ...headers(row)]);
      return { certain, possible };
    },

    async earliestEnd(): Promise<number | undefined> {
      const { rows } = await sql`SELECT MIN(end_at) AS end_at FROM sandboxes WHERE state = 'running'`;
      return integerOrNull(rows[0]?.end_at ?? null) ?? undefined;
    },

    count: (filter: ListFilter) => number`SELECT COUNT(*) AS sandboxes FROM sandboxes WHERE ${passing(filter)}`,

    /** Newest first with equal times by rising id, or the exact reverse. */
    async list(
      filter: ListFilter,
      order: ListOrder,
      after: ListPosition | undefined,
      limit: number,
    ): Promise<ListedSandboxRow[]> {
      const { startedAt, id } = after ?? { startedAt: order === "desc" ? Number.MAX_SAFE_INTEGER : -1, id: "" };
      const beyond =
        order === "desc"
          ? sqlPart`started_at <= ${startedAt} AND (started_at < ${startedAt} OR id > ${id})
              ORDER BY started_at DESC, id ASC`
          : sqlPart`started_at >= ${startedAt} AND (started_at > ${startedAt} OR id < ${id})
              ORDER BY started_at ASC, id DESC`;
      return listedRows.all`SELECT ${listed.names} FROM sandboxes
        WHERE ${passing(filter)} AND ${beyond} LIMIT ${limit}`;
    },
  };
}

function passing({ teamId, running, paused, now, startedAfter, templateId }: ListFilter): SqlPart {
  const shown = [running && shownRunning(now), paused && shownPaused(now)].filter((part) => part !== false);
  const anyShown = shown.reduce((all, part) => sqlPart`${all} OR ${part}`, sqlPart`1 = 0`);
  const ofTemplate = templateId === undefined ? sqlPart`1 = 1` : sqlPart`template_id = ${templateId}`;
  return sqlPart`team_id = ${teamId} AND (${anyShown}) AND started_at >= ${startedAfter} AND ${ofTemplate}`;
}

// The meaning of a row at a given time. control/lifecycle/sandbox-status.ts says the same in code, and its test
// compares both. Rows that are being ended satisfy none of these.

/** Clients see it as running. */
function shownRunning(now: number): SqlPart {
  return sqlPart`(kill_wanted = 0 AND state IN ('running', 'snapshotting') AND end_at > ${now})`;
}

/** Clients see it as paused; from its end on, this includes sandboxes that are due for an automatic pause. */
function shownPaused(now: number): SqlPart {
  return sqlPart`(kill_wanted = 0 AND (state IN ('pausing', 'paused', 'resuming')
    OR (state IN ('running', 'snapshotting') AND auto_pause = 1 AND end_at <= ${now})))`;
}

/** For IN; never empty, and no id is empty. */
function listOf(ids: readonly string[]): SqlPart {
  return ids.reduce((list, id) => sqlPart`${list}, ${id}`, sqlPart`''`);
}

/** It runs, or is in transition to or from running. */
function underWay(now: number): SqlPart {
  return sqlPart`(kill_wanted = 0 AND (state IN ('pausing', 'resuming', 'snapshotting')
    OR (state = 'running' AND (auto_pause = 1 OR end_at > ${now}))))`;
}
