/**
 * Sandbox rows. Every change of state is one compare-and-set on (id, state, execution id) whose result says which call
 * won: kill, expiry, pause, resume, snapshot and loss may race, and exactly one of them acts. A kill during a
 * transition leaves a request in the row. The end of the transition carries it out, because every `finish…` and
 * `abandon…` goes to `killing` instead when it finds the request.
 */

import { integer, integerOrNull, type Row, type SqlPart, type Statement, sqlPart, text, textOrNull } from "./engine.ts";
import { shownPaused, shownRunning, underWay } from "./sandbox-conditions.ts";
import type { SandboxNetwork } from "./sandbox-network.ts";

/** Failed automatic pauses before memory is given up. */
const AUTO_PAUSE_PUT_OFFS_MAX = 3;

export type SandboxState = "running" | "pausing" | "paused" | "resuming" | "snapshotting" | "killing";

export interface Sandbox {
  id: string;
  teamId: string;
  templateId: string;
  buildId: string;
  /** The template's first alias when the sandbox was created. */
  alias: string;
  state: SandboxState;
  /** Differs between runs, so that a late change of an earlier run cannot affect this one. */
  executionId: string;
  createdAt: number;
  /** Start of the current or last run. */
  startedAt: number;
  /** When the run ends, or would have ended without the pause. */
  endAt: number;
  /** When the pause began; null while it runs. */
  pausedAt: number | null;
  /** Checkpoint of a paused sandbox, or the one being written; null while it runs. */
  checkpoint: string | null;
  /** Whether the checkpoint holds memory, or only files. */
  checkpointMemory: boolean;
  /** A kill was requested during a transition; it follows when that ends. */
  killWanted: boolean;
  /** Failed automatic pauses since a client last set the end. */
  pauseFailures: number;
  /** As given at create, for a wake by traffic. */
  timeoutSeconds: number;
  /** At the end of its timeout it is paused, not killed. */
  autoPause: boolean;
  /** Whether that pause keeps memory. */
  autoPauseMemory: boolean;
  /** Traffic may wake it. */
  autoResume: boolean;
  metadata: Record<string, string>;
  envVars: Record<string, string>;
  secure: boolean;
  /** Access tokens of the runtime, newest last. */
  tokens: string[];
  /** Null: not specified. */
  allowInternetAccess: boolean | null;
  network: SandboxNetwork;
  /** Required for access to its ports; null: none required. Constant for the sandbox's lifetime. */
  trafficToken: string | null;
  /** The host may enforce other egress rules than the row says. */
  egressUnsettled: boolean;
  mcp: Record<string, unknown> | null;
  volumeMounts: VolumeMount[];
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
}

/** The columns for lists: no secrets, and nothing of a size that tenants control, which would inflate a page. */
export type ListedSandboxRow = Omit<
  Sandbox,
  "envVars" | "tokens" | "allowInternetAccess" | "network" | "trafficToken" | "egressUnsettled" | "mcp"
>;

/** A volume of a sandbox, with the name it was mounted by. */
export interface VolumeMount {
  volumeId: string;
  name: string;
  path: string;
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
  return {
    async add(sandbox: Sandbox): Promise<void> {
      const internet = sandbox.allowInternetAccess === null ? null : Number(sandbox.allowInternetAccess);
      await sql`INSERT INTO sandboxes (id, team_id, template_id, build_id, alias, state, execution_id, created_at,
          started_at, end_at, paused_at, checkpoint, checkpoint_memory, kill_wanted, pause_failures, timeout_seconds,
          auto_pause, auto_pause_memory, auto_resume, metadata, env_vars, secure, tokens, allow_internet_access,
          network, traffic_token, egress_unsettled, mcp, volume_mounts, cpu_count, memory_mb, disk_size_mb)
        VALUES (${sandbox.id}, ${sandbox.teamId}, ${sandbox.templateId}, ${sandbox.buildId}, ${sandbox.alias},
          ${sandbox.state}, ${sandbox.executionId}, ${sandbox.createdAt}, ${sandbox.startedAt}, ${sandbox.endAt},
          ${sandbox.pausedAt}, ${sandbox.checkpoint}, ${Number(sandbox.checkpointMemory)},
          ${Number(sandbox.killWanted)}, ${sandbox.pauseFailures}, ${sandbox.timeoutSeconds},
          ${Number(sandbox.autoPause)}, ${Number(sandbox.autoPauseMemory)}, ${Number(sandbox.autoResume)},
          ${JSON.stringify(sandbox.metadata)}, ${JSON.stringify(sandbox.envVars)}, ${sandbox.secure ? 1 : 0},
          ${JSON.stringify(sandbox.tokens)}, ${internet}, ${JSON.stringify(sandbox.network)}, ${sandbox.trafficToken},
          ${Number(sandbox.egressUnsettled)}, ${sandbox.mcp && JSON.stringify(sandbox.mcp)},
          ${JSON.stringify(sandbox.volumeMounts)}, ${sandbox.cpuCount}, ${sandbox.memoryMB}, ${sandbox.diskSizeMB})`;
    },

    async byId(id: string): Promise<Sandbox | undefined> {
      const { rows } = await sql`SELECT * FROM sandboxes WHERE id = ${id}`;
      return rows[0] && readSandbox(rows[0]);
    },

    /**
     * Ends the run in any state: at rest it goes to `killing`, in transition the request is recorded. Returns the new
     * row; undefined: another call has done it, or the run is over.
     */
    async kill(run: SandboxRun): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET kill_wanted = 1,
          state = CASE WHEN state IN ('running', 'paused') THEN 'killing' ELSE state END
        WHERE id = ${run.id} AND state <> 'killing' AND execution_id = ${run.executionId} AND kill_wanted = 0 RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** As `kill`, for a running sandbox. After a crash of the machine it is gone, whatever its row says. */
    async killRunning(run: SandboxRun): Promise<Sandbox | undefined> {
      const { rows } = await quick`UPDATE sandboxes SET kill_wanted = 1, state = 'killing'
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND kill_wanted = 0 RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /**
     * As `kill`, only from `running` and without a request: the run ended on its own, and a pause or snapshot in
     * progress will notice.
     */
    async endRunning(run: SandboxRun): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET state = 'killing'
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /**
     * Moves all running sandboxes whose end has come in one step: to `pausing` with autoPause, else to `killing`.
     * Returns the rows that this call moved. Checkpoint names never repeat: the removal of an abandoned one may be
     * pending.
     */
    async takeDue(now: number): Promise<Sandbox[]> {
      const { rows } = await sql`UPDATE sandboxes SET
          state = CASE WHEN auto_pause = 1 THEN 'pausing' ELSE 'killing' END,
          paused_at = CASE WHEN auto_pause = 1 THEN ${now} ELSE paused_at END,
          checkpoint = CASE WHEN auto_pause = 1 THEN execution_id || '-' || ${String(now)} ELSE checkpoint END,
          checkpoint_memory = CASE WHEN auto_pause = 1 AND auto_pause_memory = 1
            AND pause_failures < ${AUTO_PAUSE_PUT_OFFS_MAX} THEN 1 ELSE 0 END
        WHERE state = 'running' AND end_at <= ${now} RETURNING *`;
      return rows.map(readSandbox);
    },

    /** `running` → `pausing`. Undefined: it no longer runs, or its end has come. */
    async beginPause(
      run: SandboxRun,
      to: { checkpoint: string; memory: boolean; now: number },
    ): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET state = 'pausing', checkpoint = ${to.checkpoint},
          checkpoint_memory = ${Number(to.memory)}, paused_at = ${to.now}
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${to.now}
        RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** `pausing` → `paused`. */
    async finishPause(run: SandboxRun): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'paused' END
        WHERE id = ${run.id} AND state = 'pausing' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /**
     * `pausing` → `running`, with its old end. Only for this checkpoint: the same run may be in another pause by now.
     */
    async abandonPause(run: SandboxRun & Pick<Sandbox, "checkpoint">): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END,
          checkpoint = NULL, checkpoint_memory = 0, paused_at = NULL
        WHERE id = ${run.id} AND state = 'pausing' AND execution_id = ${run.executionId}
          AND checkpoint = ${run.checkpoint} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** As `abandonPause`, for a failed automatic pause: it is retried at `endAt`. */
    async putOffPause(run: SandboxRun, endAt: number): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END,
          checkpoint = NULL, checkpoint_memory = 0, paused_at = NULL,
          end_at = ${endAt}, pause_failures = pause_failures + 1
        WHERE id = ${run.id} AND state = 'pausing' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /**
     * `paused` → `resuming`, with the execution id of the new run. If the machine crashes meanwhile, nothing of that
     * run is left, and the sandbox is paused as before.
     */
    async beginResume(run: SandboxRun, executionId: string): Promise<Sandbox | undefined> {
      const { rows } = await quick`UPDATE sandboxes SET state = 'resuming', execution_id = ${executionId}
        WHERE id = ${run.id} AND state = 'paused' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** `resuming` → `running`. Unless a kill was requested, the row no longer names the checkpoint. */
    async finishResume(run: SandboxRun, to: NewRun): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END,
          checkpoint = CASE WHEN kill_wanted = 1 THEN checkpoint ELSE NULL END,
          checkpoint_memory = 0, paused_at = NULL, pause_failures = 0, started_at = ${to.startedAt}, end_at = ${to.endAt},
          tokens = ${JSON.stringify(to.tokens)}, auto_pause = ${Number(to.autoPause)}
        WHERE id = ${run.id} AND state = 'resuming' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** `resuming` → `paused`, as before. */
    async abandonResume(run: SandboxRun): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'paused' END
        WHERE id = ${run.id} AND state = 'resuming' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** `running` → `snapshotting`. Undefined: it no longer runs, or its end has come. */
    async beginSnapshot(run: SandboxRun, now: number): Promise<Sandbox | undefined> {
      const { rows } = await quick`UPDATE sandboxes SET state = 'snapshotting'
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** `snapshotting` → `running`, whether or not the snapshot succeeded. */
    async finishSnapshot(run: SandboxRun): Promise<Sandbox | undefined> {
      const { rows } = await quick`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END
        WHERE id = ${run.id} AND state = 'snapshotting' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** Sets the end of a running sandbox. Undefined: it no longer runs, or its end has come. */
    async setEnd(run: SandboxRun, endAt: number, now: number): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET end_at = ${endAt}, pause_failures = 0
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** As `setEnd`, but never to an earlier time. */
    async extendEnd(run: SandboxRun, endAt: number, now: number): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET pause_failures = 0,
          end_at = CASE WHEN end_at < ${endAt} THEN ${endAt} ELSE end_at END
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** A row without a checkpoint may reappear after a crash of the machine, and is then removed again. */
    async remove(run: SandboxRun & Pick<Sandbox, "checkpoint">): Promise<void> {
      await (run.checkpoint === null ? quick : sql)`DELETE FROM sandboxes
        WHERE id = ${run.id} AND state = 'killing' AND execution_id = ${run.executionId}`;
    },

    async inState(state: SandboxState): Promise<Sandbox[]> {
      const { rows } = await sql`SELECT * FROM sandboxes WHERE state = ${state} ORDER BY id`;
      return rows.map(readSandbox);
    },

    /** A team's sandboxes of a template, without those being ended. */
    async countOf(templateId: string, teamId: string): Promise<number> {
      const { rows } = await sql`SELECT COUNT(*) AS sandboxes FROM sandboxes
        WHERE template_id = ${templateId} AND team_id = ${teamId} AND state <> 'killing' AND kill_wanted = 0`;
      return integer(rows[0]?.sandboxes);
    },

    /** A team's sandboxes that run or are in transition to or from running, without those being ended. */
    async holdingQuota(teamId: string, now: number): Promise<string[]> {
      const { rows } = await sql`SELECT id FROM sandboxes
        WHERE team_id = ${teamId} AND ${underWay(now)}`;
      return rows.map((row) => text(row.id));
    },

    /** Running and paused sandboxes with tokens: running ones first, then newest first. */
    async secured(now: number, limit: number): Promise<{ id: string; tokens: string[] }[]> {
      const { rows } = await sql`SELECT id, tokens FROM sandboxes
        WHERE secure = 1 AND (${shownRunning(now)} OR ${shownPaused(now)})
        ORDER BY CASE WHEN ${shownRunning(now)} THEN 0 ELSE 1 END, started_at DESC, id ASC
        LIMIT ${limit}`;
      return rows.map((row) => ({ id: text(row.id), tokens: JSON.parse(text(row.tokens)) }));
    },

    async earliestEnd(): Promise<number | undefined> {
      const { rows } = await sql`SELECT MIN(end_at) AS end_at FROM sandboxes WHERE state = 'running'`;
      return integerOrNull(rows[0]?.end_at ?? null) ?? undefined;
    },

    async count(filter: ListFilter): Promise<number> {
      const { rows } = await sql`SELECT COUNT(*) AS sandboxes FROM sandboxes WHERE ${passing(filter)}`;
      return integer(rows[0]?.sandboxes);
    },

    /** Newest first with equal times by rising id, or the exact reverse. */
    async list(
      filter: ListFilter,
      order: ListOrder,
      after: ListPosition | undefined,
      limit: number,
    ): Promise<ListedSandboxRow[]> {
      const from =
        after ?? (order === "desc" ? { startedAt: Number.MAX_SAFE_INTEGER, id: "" } : { startedAt: -1, id: "" });
      const { rows } =
        order === "desc"
          ? await sql`SELECT ${listedColumns()} FROM sandboxes WHERE ${passing(filter)}
                AND started_at <= ${from.startedAt} AND (started_at < ${from.startedAt} OR id > ${from.id})
              ORDER BY started_at DESC, id ASC LIMIT ${limit}`
          : await sql`SELECT ${listedColumns()} FROM sandboxes WHERE ${passing(filter)}
                AND started_at >= ${from.startedAt} AND (started_at > ${from.startedAt} OR id < ${from.id})
              ORDER BY started_at ASC, id DESC LIMIT ${limit}`;
      return rows.map(readListed);
    },
  };
}

function passing({ teamId, running, paused, now, startedAfter, templateId }: ListFilter): SqlPart {
  const shown = [running && shownRunning(now), paused && shownPaused(now)].filter((part) => part !== false);
  const anyShown = shown.reduce((all, part) => sqlPart`${all} OR ${part}`, sqlPart`1 = 0`);
  const ofTemplate = templateId === undefined ? sqlPart`1 = 1` : sqlPart`template_id = ${templateId}`;
  return sqlPart`team_id = ${teamId} AND (${anyShown}) AND started_at >= ${startedAfter} AND ${ofTemplate}`;
}

/** The columns of a `ListedSandboxRow`. */
function listedColumns(): SqlPart {
  return sqlPart`id, team_id, template_id, build_id, alias, state, execution_id, created_at, started_at, end_at, paused_at,
    checkpoint, checkpoint_memory, kill_wanted, pause_failures, timeout_seconds, auto_pause, auto_pause_memory,
    auto_resume, metadata, secure, volume_mounts, cpu_count, memory_mb, disk_size_mb`;
}

export function readSandbox(row: Row): Sandbox {
  const internet = integerOrNull(row.allow_internet_access);
  const mcp = textOrNull(row.mcp);
  return {
    ...readListed(row),
    envVars: JSON.parse(text(row.env_vars)),
    tokens: JSON.parse(text(row.tokens)),
    allowInternetAccess: internet === null ? null : internet === 1,
    network: JSON.parse(text(row.network)),
    trafficToken: textOrNull(row.traffic_token),
    egressUnsettled: integer(row.egress_unsettled) === 1,
    mcp: mcp === null ? null : JSON.parse(mcp),
  };
}

function readListed(row: Row): ListedSandboxRow {
  return {
    id: text(row.id),
    teamId: text(row.team_id),
    templateId: text(row.template_id),
    buildId: text(row.build_id),
    alias: text(row.alias),
    state: text(row.state) as SandboxState,
    executionId: text(row.execution_id),
    createdAt: integer(row.created_at),
    startedAt: integer(row.started_at),
    endAt: integer(row.end_at),
    pausedAt: integerOrNull(row.paused_at),
    checkpoint: textOrNull(row.checkpoint),
    checkpointMemory: integer(row.checkpoint_memory) === 1,
    killWanted: integer(row.kill_wanted) === 1,
    pauseFailures: integer(row.pause_failures),
    timeoutSeconds: integer(row.timeout_seconds),
    autoPause: integer(row.auto_pause) === 1,
    autoPauseMemory: integer(row.auto_pause_memory) === 1,
    autoResume: integer(row.auto_resume) === 1,
    metadata: JSON.parse(text(row.metadata)),
    secure: integer(row.secure) === 1,
    volumeMounts: JSON.parse(text(row.volume_mounts)),
    cpuCount: integer(row.cpu_count),
    memoryMB: integer(row.memory_mb),
    diskSizeMB: integer(row.disk_size_mb),
  };
}
