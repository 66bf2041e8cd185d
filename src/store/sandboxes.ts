/**
 * Sandbox rows. Every change of state is one compare-and-set on (id, state, execution id) whose answer says who won:
 * kill, expiry, loss and whatever comes later may race, and exactly one of them goes on to act.
 */
import { integer, integerOrNull, type Row, type Statement, text, textOrNull } from "./engine.ts";

/** `pausing`, `paused` and `snapshotting` have their place here; nothing enters them yet. */
export type SandboxState = "running" | "killing" | "pausing" | "paused" | "snapshotting";

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
  startedAt: number;
  endAt: number;
  metadata: Record<string, string>;
  envVars: Record<string, string>;
  secure: boolean;
  /** Tokens that open the runtime, the newest last. */
  tokens: string[];
  /** Null: the creator did not say. */
  allowInternetAccess: boolean | null;
  mcp: Record<string, unknown> | null;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
}

/** Enough to say which run of which sandbox is meant. */
export interface SandboxRun {
  id: string;
  executionId: string;
}

export interface ListFilter {
  teamId: string;
  running: boolean;
  paused: boolean;
  /** Running sandboxes whose end has come by now are left out. */
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

export function sandboxesIn(sql: Statement) {
  return {
    async add(sandbox: Sandbox): Promise<void> {
      const internet = sandbox.allowInternetAccess === null ? null : Number(sandbox.allowInternetAccess);
      await sql`INSERT INTO sandboxes (id, team_id, template_id, build_id, alias, state, execution_id, created_at,
          started_at, end_at, metadata, env_vars, secure, tokens, allow_internet_access, mcp, cpu_count, memory_mb,
          disk_size_mb)
        VALUES (${sandbox.id}, ${sandbox.teamId}, ${sandbox.templateId}, ${sandbox.buildId}, ${sandbox.alias},
          ${sandbox.state}, ${sandbox.executionId}, ${sandbox.createdAt}, ${sandbox.startedAt}, ${sandbox.endAt},
          ${JSON.stringify(sandbox.metadata)}, ${JSON.stringify(sandbox.envVars)}, ${sandbox.secure ? 1 : 0},
          ${JSON.stringify(sandbox.tokens)}, ${internet}, ${sandbox.mcp && JSON.stringify(sandbox.mcp)},
          ${sandbox.cpuCount}, ${sandbox.memoryMB}, ${sandbox.diskSizeMB})`;
    },

    async byId(id: string): Promise<Sandbox | undefined> {
      const { rows } = await sql`SELECT * FROM sandboxes WHERE id = ${id}`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** True: this call made the change. False: another did, or the run is over. */
    async changeState(run: SandboxRun, from: SandboxState, to: SandboxState): Promise<boolean> {
      const { count } = await sql`UPDATE sandboxes SET state = ${to}
        WHERE id = ${run.id} AND state = ${from} AND execution_id = ${run.executionId}`;
      return count === 1;
    },

    /** All running sandboxes whose end has come go to `killing` in one step. Those that this call moved are answered. */
    async takeDue(now: number): Promise<SandboxRun[]> {
      const { rows } = await sql`UPDATE sandboxes SET state = 'killing'
        WHERE state = 'running' AND end_at <= ${now} RETURNING id, execution_id`;
      return rows.map(readRun);
    },

    /** A running sandbox gets a new end. Undefined: it is not running any more, or its end has come. */
    async setEnd(run: SandboxRun, endAt: number, now: number): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET end_at = ${endAt}
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    /** As `setEnd`, but an end that is later already stays. */
    async extendEnd(run: SandboxRun, endAt: number, now: number): Promise<Sandbox | undefined> {
      const { rows } = await sql`UPDATE sandboxes SET end_at = CASE WHEN end_at < ${endAt} THEN ${endAt} ELSE end_at END
        WHERE id = ${run.id} AND state = 'running' AND execution_id = ${run.executionId} AND end_at > ${now} RETURNING *`;
      return rows[0] && readSandbox(rows[0]);
    },

    async remove(run: SandboxRun): Promise<void> {
      await sql`DELETE FROM sandboxes
        WHERE id = ${run.id} AND state = 'killing' AND execution_id = ${run.executionId}`;
    },

    async inState(state: SandboxState): Promise<SandboxRun[]> {
      const { rows } = await sql`SELECT id, execution_id FROM sandboxes WHERE state = ${state} ORDER BY id`;
      return rows.map(readRun);
    },

    /** Running sandboxes that have tokens, the newest first. */
    async secured(now: number, limit: number): Promise<{ id: string; tokens: string[] }[]> {
      const { rows } = await sql`SELECT id, tokens FROM sandboxes
        WHERE state = 'running' AND secure = 1 AND end_at > ${now} ORDER BY started_at DESC, id ASC LIMIT ${limit}`;
      return rows.map((row) => ({ id: text(row.id), tokens: JSON.parse(text(row.tokens)) }));
    },

    async earliestEnd(): Promise<number | undefined> {
      const { rows } = await sql`SELECT MIN(end_at) AS end_at FROM sandboxes WHERE state = 'running'`;
      return integerOrNull(rows[0]?.end_at ?? null) ?? undefined;
    },

    async count(filter: ListFilter): Promise<number> {
      const { rows } = await sql`SELECT COUNT(*) AS sandboxes FROM sandboxes
        WHERE team_id = ${filter.teamId}
          AND ((${Number(filter.running)} = 1 AND state = 'running' AND end_at > ${filter.now})
            OR (${Number(filter.paused)} = 1 AND state = 'paused'))
          AND started_at >= ${filter.startedAfter}
          AND (${filter.templateId ?? ""} = '' OR template_id = ${filter.templateId ?? ""})`;
      return integer(rows[0]?.sandboxes);
    },

    /** Newest first with equal times by rising id, or the exact mirror of that. */
    async list(
      filter: ListFilter,
      order: ListOrder,
      after: ListPosition | undefined,
      limit: number,
    ): Promise<Sandbox[]> {
      const from =
        after ?? (order === "desc" ? { startedAt: Number.MAX_SAFE_INTEGER, id: "" } : { startedAt: -1, id: "" });
      const { rows } =
        order === "desc"
          ? await sql`SELECT * FROM sandboxes
              WHERE team_id = ${filter.teamId}
                AND ((${Number(filter.running)} = 1 AND state = 'running' AND end_at > ${filter.now})
                  OR (${Number(filter.paused)} = 1 AND state = 'paused'))
                AND started_at >= ${filter.startedAfter}
                AND (${filter.templateId ?? ""} = '' OR template_id = ${filter.templateId ?? ""})
                AND started_at <= ${from.startedAt} AND (started_at < ${from.startedAt} OR id > ${from.id})
              ORDER BY started_at DESC, id ASC LIMIT ${limit}`
          : await sql`SELECT * FROM sandboxes
              WHERE team_id = ${filter.teamId}
                AND ((${Number(filter.running)} = 1 AND state = 'running' AND end_at > ${filter.now})
                  OR (${Number(filter.paused)} = 1 AND state = 'paused'))
                AND started_at >= ${filter.startedAfter}
                AND (${filter.templateId ?? ""} = '' OR template_id = ${filter.templateId ?? ""})
                AND started_at >= ${from.startedAt} AND (started_at > ${from.startedAt} OR id < ${from.id})
              ORDER BY started_at ASC, id DESC LIMIT ${limit}`;
      return rows.map(readSandbox);
    },
  };
}

function readRun(row: Row): SandboxRun {
  return { id: text(row.id), executionId: text(row.execution_id) };
}

function readSandbox(row: Row): Sandbox {
  const internet = integerOrNull(row.allow_internet_access);
  const mcp = textOrNull(row.mcp);
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
    metadata: JSON.parse(text(row.metadata)),
    envVars: JSON.parse(text(row.env_vars)),
    secure: integer(row.secure) === 1,
    tokens: JSON.parse(text(row.tokens)),
    allowInternetAccess: internet === null ? null : internet === 1,
    mcp: mcp === null ? null : JSON.parse(mcp),
    cpuCount: integer(row.cpu_count),
    memoryMB: integer(row.memory_mb),
    diskSizeMB: integer(row.disk_size_mb),
  };
}
