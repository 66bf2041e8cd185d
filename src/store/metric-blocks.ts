/** Metric samples in blocks: one row holds ten minutes of a sandbox, and is thinned as it ages. */
import { type Statement, text } from "./engine.ts";
import { INTEGER, type Stored, Table, TEXT } from "./table.ts";

export interface Sample {
  /** Milliseconds since 1970. */
  at: number;
  cpuCount: number;
  cpuUsedPct: number;
  memUsed: number;
  memTotal: number;
  memCache: number;
  diskUsed: number;
  diskTotal: number;
}

const blocks = new Table({
  sandboxId: TEXT,
  teamId: TEXT,
  blockAt: INTEGER,
  /** Distance between its samples. */
  stepMs: INTEGER,
  samples: {
    read: (stored: unknown) => (JSON.parse(text(stored)) as Packed[]).map(unpack),
    write: (samples: Sample[]) => JSON.stringify(samples.map(pack)),
  },
});
export type MetricBlock = Stored<typeof blocks>;

/** A running sandbox, with the constant values of its samples. */
const measured = new Table({ id: TEXT, teamId: TEXT, cpuCount: INTEGER, memoryMB: INTEGER });
export type Measurable = Stored<typeof measured>;

/** Stored without names, to save space. */
type Packed = [number, number, number, number, number, number, number, number];

export function metricBlocksIn(sql: Statement) {
  const { first, all, execute, count } = blocks.over(sql);
  const measuredRows = measured.over(sql);
  return {
    measurable: () => measuredRows.all`SELECT ${measured.names} FROM sandboxes
        WHERE state <> 'paused' AND state <> 'killing' ORDER BY id`,

    /** Adds or replaces the block. */
    put: (block: MetricBlock) => execute`INSERT INTO metric_blocks ${blocks.values(block)}
        ON CONFLICT (sandbox_id, block_at) DO UPDATE SET step_ms = excluded.step_ms, samples = excluded.samples`,

    at: (sandboxId: string, blockAt: number) => first`SELECT * FROM metric_blocks
        WHERE sandbox_id = ${sandboxId} AND block_at = ${blockAt}`,

    /** Blocks that begin from `from` to `to`, both inclusive, in order. */
    between: (teamId: string, sandboxId: string, from: number, to: number) => all`SELECT * FROM metric_blocks
        WHERE sandbox_id = ${sandboxId} AND team_id = ${teamId} AND block_at >= ${from} AND block_at <= ${to}
        ORDER BY block_at`,

    newest: (teamId: string, sandboxId: string) => first`SELECT * FROM metric_blocks
        WHERE sandbox_id = ${sandboxId} AND team_id = ${teamId} ORDER BY block_at DESC LIMIT 1`,

    /** Blocks that began before `time` and whose samples are closer together than `stepMs`. */
    denserThan: (stepMs: number, time: number, limit: number) => all`SELECT * FROM metric_blocks
        WHERE step_ms < ${stepMs} AND block_at < ${time} ORDER BY step_ms, block_at LIMIT ${limit}`,

    removeBefore: (time: number, limit: number) => count`DELETE FROM metric_blocks WHERE (sandbox_id, block_at) IN
        (SELECT sandbox_id, block_at FROM metric_blocks WHERE block_at < ${time} ORDER BY block_at LIMIT ${limit})`,
  };
}

function pack(sample: Sample): Packed {
  const { at, cpuCount, cpuUsedPct, memUsed, memTotal, memCache, diskUsed, diskTotal } = sample;
  return [at, cpuCount, cpuUsedPct, memUsed, memTotal, memCache, diskUsed, diskTotal];
}

function unpack([at, cpuCount, cpuUsedPct, memUsed, memTotal, memCache, diskUsed, diskTotal]: Packed): Sample {
  return { at, cpuCount, cpuUsedPct, memUsed, memTotal, memCache, diskUsed, diskTotal };
}
