/** Numbers of running and started sandboxes of a team on the management API. */
import { z } from "zod";
import { dateTime } from "./identifiers.ts";
import { metricsQuery } from "./sandbox-metric.ts";

const shared = { timestamp: dateTime, timestampUnix: z.int().describe("The same, in seconds") };

export const teamMetric = z.object({
  ...shared,
  concurrentSandboxes: z
    .int()
    .min(0)
    .describe("Maximum of concurrently running sandboxes in the interval that starts then"),
  sandboxStartRate: z.number().min(0).describe("Sandboxes created, resumed and forked per second of the interval"),
});

export const highestTeamMetric = z.object({ ...shared, value: z.number().min(0) });

const { start, end } = metricsQuery.shape;

export const teamMetricsQuery = z.object({
  start: start.describe("Seconds since 1970; a week ago when absent or earlier"),
  end: end.describe("Seconds since 1970; now when absent or later"),
});

export const highestTeamMetricQuery = teamMetricsQuery.extend({
  metric: z.enum(["concurrent_sandboxes", "sandbox_start_rate"]),
});

export type TeamMetricName = z.infer<typeof highestTeamMetricQuery>["metric"];
