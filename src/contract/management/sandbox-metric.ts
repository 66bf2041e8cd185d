/** Metrics of sandboxes on the management API. */
import { z } from "zod";
import { dateTime, sandboxId } from "./identifiers.ts";
import { METRIC_SANDBOXES_MAX } from "./limits.ts";

const bytes = z.int().min(0);

export const sandboxMetric = z.object({
  timestamp: dateTime,
  timestampUnix: z.int().describe("The same, in seconds"),
  cpuCount: z.int32().min(1),
  cpuUsedPct: z.number().min(0).max(100).describe("Over all processors of the sandbox"),
  memUsed: bytes,
  memTotal: bytes,
  memCache: bytes.describe("Page cache; freed when memory is needed"),
  diskUsed: bytes,
  diskTotal: bytes,
});

export const newestMetrics = z.object({ sandboxes: z.record(sandboxId, sandboxMetric) });

const seconds = z.int().min(0);

export const metricsQuery = z
  .object({
    start: seconds.optional().describe("Seconds since 1970; from the first sample when absent"),
    end: seconds.optional().describe("Seconds since 1970; to the last sample when absent"),
  })
  .describe("Longer time spans have longer intervals");

export const newestMetricsQuery = z.object({
  sandbox_ids: z
    .array(sandboxId)
    .min(1)
    .max(METRIC_SANDBOXES_MAX)
    .refine((ids) => new Set(ids).size === ids.length, { error: "must name each sandbox once" })
    .describe("Comma-separated"),
});

export type SandboxMetric = z.infer<typeof sandboxMetric>;
