/** The routes of metrics. As with logs, whether a sandbox exists is not asked. */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import {
  metricsQuery,
  newestMetrics,
  newestMetricsQuery,
  type SandboxMetric,
  sandboxMetric,
} from "../../contract/management/sandbox-metric.ts";
import type { Sample } from "../../store/metric-blocks.ts";
import { sandboxIdFrom } from "./sandbox-path.ts";
import { type Route, route } from "./services.ts";

export const metricRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/sandboxes/metrics",
    auth: "key",
    summary: "Newest metrics of several sandboxes",
    query: newestMetricsQuery,
    success: [{ status: 200, description: "Those that have any", schema: newestMetrics }],
    async handle({ caller, query }, { chronicle }) {
      const sandboxes: Record<string, SandboxMetric> = {};
      for (const id of query.sandbox_ids) {
        const sample = await chronicle.metrics.newest(caller.team.id, id);
        if (sample !== undefined) sandboxes[id] = asMetric(sample);
      }
      return { status: 200, body: { sandboxes } };
    },
  }),
  route({
    method: "GET",
    path: "/sandboxes/{sandboxID}/metrics",
    auth: "key",
    summary: "Metrics of one sandbox over time",
    query: metricsQuery,
    success: [{ status: 200, description: "Oldest first", schema: z.array(sandboxMetric) }],
    async handle({ caller, params, query: { start, end } }, { chronicle }) {
      if (start !== undefined && end !== undefined && start > end) {
        throw new Fault(400, `start (${start}) is after end (${end}); both are seconds since 1970`);
      }
      const samples = await chronicle.metrics.read(
        caller.team.id,
        sandboxIdFrom(params.sandboxID ?? ""),
        start === undefined ? undefined : start * 1000,
        // To the end of that second.
        end === undefined ? undefined : end * 1000 + 999,
      );
      return { status: 200, body: samples.map(asMetric) };
    },
  }),
];

function asMetric({ at, ...sample }: Sample): SandboxMetric {
  return { timestamp: new Date(at).toISOString(), timestampUnix: Math.floor(at / 1000), ...sample };
}
