/** Metric samples in blocks: one row holds ten minutes of a sandbox, and is thinned as it ages. */
import { integer, type Row, type Statement, text } from "./engine.ts";

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

export interface MetricBlock {
  sandboxId: string;
  teamId: string;
  blockAt: number;
  /** Distance between its samples. */
  stepMs: number;
  samples: Sample[];
}

/** A running sandbox, with the constant values of its samples. */
export interface Measurable {
  id: string;
  teamId: string;
  cpuCount: number;
  memoryMB: number;
}

/** Stored without names, to save space. */
type Packed = [number, number, number, number, number, number, number, number];

export function metricBlocksIn(sql: Statement) {
  return {
    async measurable(): Promise<Measurable[]> {
      const { rows } = await sql`SELECT id, team_id, cpu_count, memory_mb FROM sandboxes
        WHERE state <> 'paused' AND state <> 'killing' ORDER BY id`;
      return rows.map((row) => ({
        id: text(row.id),
        teamId: text(row.team_id),
        cpuCount: integer(row.cpu_count),
        memoryMB: integer(row.memory_mb),
      }));
    },

    /** Adds or replaces the block. */
    async put(block: MetricBlock): Promise<void> {
      const samples = JSON.stringify(block.samples.map(pack));
      await sql`INSERT INTO metric_blocks (sandbox_id, block_at, team_id, step_ms, samples)
        VALUES (${block.sandboxId}, ${block.blockAt}, ${block.teamId}, ${block.stepMs}, ${samples})
        ON CONFLICT (sandbox_id, block_at) DO UPDATE SET step_ms = excluded.step_ms, samples = excluded.samples`;
    },

    async at(sandboxId: string, blockAt: number): Promise<MetricBlock | undefined> {
      const { rows } = await sql`SELECT * FROM metric_blocks WHERE sandbox_id = ${sandboxId} AND block_at = ${blockAt}`;
      return rows[0] && readBlock(rows[0]);
    },

    /** Blocks that begin from `from` to `to`, both inclusive, in order. */
    async between(teamId: string, sandboxId: string, from: number, to: number): Promise<MetricBlock[]> {
      const { rows } = await sql`SELECT * FROM metric_blocks
        WHERE sandbox_id = ${sandboxId} AND team_id = ${teamId} AND block_at >= ${from} AND block_at <= ${to}
        ORDER BY block_at`;
      return rows.map(readBlock);
    },

    async newest(teamId: string, sandboxId: string): Promise<MetricBlock | undefined> {
      const { rows } = await sql`SELECT * FROM metric_blocks
        WHERE sandbox_id = ${sandboxId} AND team_id = ${teamId} ORDER BY block_at DESC LIMIT 1`;
      return rows[0] && readBlock(rows[0]);
    },

    /** Blocks that began before `time` and whose samples are closer together than `stepMs`. */
    async denserThan(stepMs: number, time: number, limit: number): Promise<MetricBlock[]> {
      const { rows } = await sql`SELECT * FROM metric_blocks
        WHERE step_ms < ${stepMs} AND block_at < ${time} ORDER BY step_ms, block_at LIMIT ${limit}`;
      return rows.map(readBlock);
    },

    async removeBefore(time: number, limit: number): Promise<number> {
      const { count } = await sql`DELETE FROM metric_blocks WHERE (sandbox_id, block_at) IN
        (SELECT sandbox_id, block_at FROM metric_blocks WHERE block_at < ${time} ORDER BY block_at LIMIT ${limit})`;
      return count;
    },
  };
}

function pack(sample: Sample): Packed {
  const { at, cpuCount, cpuUsedPct, memUsed, memTotal, memCache, diskUsed, diskTotal } = sample;
  return [at, cpuCount, cpuUsedPct, memUsed, memTotal, memCache, diskUsed, diskTotal];
}

function unpack([at, cpuCount, cpuUsedPct, memUsed, memTotal, memCache, diskUsed, diskTotal]: Packed): Sample {
  return { at, cpuCount, cpuUsedPct, memUsed, memTotal, memCache, diskUsed, diskTotal };
}

function readBlock(row: Row): MetricBlock {
  return {
    sandboxId: text(row.sandbox_id),
    teamId: text(row.team_id),
    blockAt: integer(row.block_at),
    stepMs: integer(row.step_ms),
    samples: (JSON.parse(text(row.samples)) as Packed[]).map(unpack),
  };
}
