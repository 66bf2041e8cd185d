/**
 * Sandbox rows. Every change of state is one compare-and-set on (id, state, execution id) whose answer says who won:
 * kill, expiry, pause, resume, snapshot and loss may race, and exactly one of them goes on to act. A kill that comes
 * while another has a sandbox in hand leaves a request in the row; whoever finishes carries it out, because every
 * `finish…` and `abandon…` goes to `killing` instead when it finds the request.
 */

import { integer, integerOrNull, type Row, type SqlPart, type Statement, sqlPart, text, textOrNull } from "./engine.ts";
import { shownPaused, shownRunning, underWay } from "./sandbox-conditions.ts";
import type { SandboxNetwork } from "./sandbox-network.ts";

/** A pause at the end of a timeout that cannot be done is put off so often; then memory is given up. */
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
  /** Changes with every run, so that a late answer about an earlier run cannot touch this one. */
  executionId: string;
  createdAt: number;
  /** Start of the current or last run. */
  startedAt: number;
  /** When the run ends, or would have ended had it not been paused. */
  endAt: number;
  /** When the pause began; null while it runs. */
  pausedAt: number | null;
  /** Where a paused sandbox is, or where it is being written to; null while it runs. */
  checkpoint: string | null;
  /** Whether the checkpoint holds memory, or only files. */
  checkpointMemory: boolean;
  /** Somebody wants it killed as soon as what is under way is done. */
  killWanted: boolean;
  /** Pauses at the end of its timeout that could not be done, since somebody last said when that is. */
  pauseFailures: number;
  /** As given at create, for when traffic wakes it. */
  timeoutSeconds: number;
  /** At the end of its timeout it is paused, not killed. */
  autoPause: boolean;
  /** Whether that pause keeps memory. */
  autoPauseMemory: boolean;
  /** Traffic wakes it. */
  autoResume: boolean;
  metadata: Record<string, string>;
  envVars: Record<string, string>;
  secure: boolean;
  /** Tokens that open the runtime, the newest last. */
  tokens: string[];
  /** Null: the creator did not say. */
  allowInternetAccess: boolean | null;
  network: SandboxNetwork;
  /** Demanded of who wants to reach it; null: anybody may. It stays the same for the sandbox's life. */
  trafficToken: string | null;
  /** The host may be between two ideas of what may leave this run. */
  egressUnsettled: boolean;
  mcp: Record<string, unknown> | null;
  volumeMounts: VolumeMount[];
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
}

/** What lists need of a row: nothing secret, and nothing that makes a page of a hundred as large as a tenant likes. */
export type ListedSandboxRow = Omit<
  Sandbox,
  "envVars" | "tokens" | "allowInternetAccess" | "network" | "trafficToken" | "egressUnsettled" | "mcp"
>;

/** A volume in a sandbox, under the name that it was mounted by. */
export interface VolumeMount {
  volumeId: string;
  name: string;
  path: string;
}

/** Enough to say which run of which sandbox is meant. */
export interface SandboxRun {
  id: string;
  executionId: string;
}

/** What a new run starts with. */
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
  /** Running sandboxes whose end has come by now count as paused if they are to be, else they are left out. */
  now: number;
  /** Inclusive; 0 for all. */
  startedAfter: number;
  templateId: string | undefined;
}

export interface ListPosition {
  startedAt: number;
  id: string;
}

export type ListOrder = "asc" | "desc";

/** `quick` is for changes of what does not outlast the machine itself: a sandbox that runs. */
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
     * Ends the run, whatever it is at: at rest it goes to `killing`, otherwise the request is noted. The row as it is
     * then; undefined: another has done it already, or the run is over.
     */
    async kill(run: SandboxRun): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET kill_wanted = 1,
          state = CASE WHEN state IN ('running', 'paused') THEN 'killing' ELSE state END
        WHERE id = ${run.id} AND state <> 'killing' AND execution_id = ${run.executionId} AND kill_wanted = 0 RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** As `kill`, of one that runs. After a crash of the machine it is gone, whatever its row says. */
    async killRunning(run: SandboxRun): Promise<Sandbox | undefined> {
      const { rows } = await quick`UPDATE sandboxes SET kill_wanted = 1, state = 'killing'
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND kill_wanted = 0 RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** As `kill`, but only what runs: its end came by itself, so a pause or snapshot under way will find out. */
    async endRunning(run: SandboxRun): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET state = 'killing'
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /**
     * All running sandboxes whose end has come leave that state in one step, to `pausing` if they are to be paused and
     * to `killing` if not. Those that this call moved are answered. No checkpoint's name comes twice: one that was
     * given up may still be about to be removed.
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

    /** `running` → `pausing`. Undefined: it does not run any more, or its end has come. */
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

    /** `pausing` → `running`, with the end it had. Of this pause: the same run may be in another by now. */
    async abandonPause(run: SandboxRun & Pick<Sandbox, "checkpoint">): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END,
          checkpoint = NULL, checkpoint_memory = 0, paused_at = NULL
        WHERE id = ${run.id} AND state = 'pausing' AND execution_id = ${run.executionId}
          AND checkpoint = ${run.checkpoint} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** As `abandonPause`, after a pause that nobody is there to be told about: it is tried again at `endAt`. */
    async putOffPause(run: SandboxRun, endAt: number): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END,
          checkpoint = NULL, checkpoint_memory = 0, paused_at = NULL,
          end_at = ${endAt}, pause_failures = pause_failures + 1
        WHERE id = ${run.id} AND state = 'pausing' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /**
     * `paused` → `resuming`, under the execution id of the run that begins. Of a machine that crashes meanwhile nothing
     * is left of that run, and the sandbox is paused as it was.
     */
    async beginResume(run: SandboxRun, executionId: string): Promise<Sandbox | undefined> {
      const { rows } = await quick`UPDATE sandboxes SET state = 'resuming', execution_id = ${executionId}
        WHERE id = ${run.id} AND state = 'paused' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** `resuming` → `running`. Without a request to kill it, the row no longer names the checkpoint. */
    async finishResume(run: SandboxRun, to: NewRun): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END,
          checkpoint = CASE WHEN kill_wanted = 1 THEN checkpoint ELSE NULL END,
          checkpoint_memory = 0, paused_at = NULL, pause_failures = 0, started_at = ${to.startedAt}, end_at = ${to.endAt},
          tokens = ${JSON.stringify(to.tokens)}, auto_pause = ${Number(to.autoPause)}
        WHERE id = ${run.id} AND state = 'resuming' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** `resuming` → `paused`: it is where it was. */
    async abandonResume(run: SandboxRun): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'paused' END
        WHERE id = ${run.id} AND state = 'resuming' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** `running` → `snapshotting`. Undefined: it does not run any more, or its end has come. */
    async beginSnapshot(run: SandboxRun, now: number): Promise<Sandbox | undefined> {
      const { rows } = await quick`UPDATE sandboxes SET state = 'snapshotting'
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** `snapshotting` → `running`, whether there is a snapshot or not. */
    async finishSnapshot(run: SandboxRun): Promise<Sandbox | undefined> {
      const { rows } = await quick`UPDATE sandboxes SET
          state = CASE WHEN kill_wanted = 1 THEN 'killing' ELSE 'running' END
        WHERE id = ${run.id} AND state = 'snapshotting' AND execution_id = ${run.executionId} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** A running sandbox gets a new end. Undefined: it is not running any more, or its end has come. */
    async setEnd(run: SandboxRun, endAt: number, now: number): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET end_at = ${endAt}, pause_failures = 0
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** As `setEnd`, but an end that is later already stays. */
    async extendEnd(run: SandboxRun, endAt: number, now: number): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET pause_failures = 0,
          end_at = CASE WHEN end_at < ${endAt} THEN ${endAt} ELSE end_at END
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** A row without a checkpoint that is there again after a crash of the machine is removed again. */
    async remove(run: SandboxRun & Pick<Sandbox, "checkpoint">): Promise<void> {
      await (run.checkpoint === null ? quick : sql)`DELETE FROM sandboxes
        WHERE id = ${run.id} AND state = 'killing' AND execution_id = ${run.executionId}`;
    },

    async inState(state: SandboxState): Promise<Sandbox[]> {
      const { rows } = await sql`SELECT * FROM sandboxes WHERE state = ${state} ORDER BY id`;
      return rows.map(readSandbox);
    },

    /** How many sandboxes a team has of a template, other than those that are being ended. */
    async countOf(templateId: string, teamId: string): Promise<number> {
      const { rows } = await sql`SELECT COUNT(*) AS sandboxes FROM sandboxes
        WHERE template_id = ${templateId} AND team_id = ${teamId} AND state <> 'killing' AND kill_wanted = 0`;
      return integer(rows[0]?.sandboxes);
    },

    /** A team's sandboxes that run or are on their way to or from that, other than those that are being ended. */
    async holdingQuota(teamId: string, now: number): Promise<string[]> {
      const { rows } = await sql`SELECT id FROM sandboxes
        WHERE team_id = ${teamId} AND ${underWay(now)}`;
      return rows.map((row) => text(row.id));
    },

    /** Sandboxes that run or are paused and have tokens, the running ones and the newest first. */
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

    /** Newest first with equal times by rising id, or the exact mirror of that. */
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
