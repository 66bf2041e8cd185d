/**
 * The routes of metrics, of sandboxes and of a team. As with logs, they do not check that a sandbox exists. Another
 * team's id gets 403, whether or not that team exists.
 */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { UUID } from "../../contract/management/identifiers.ts";
import {
  metricsQuery,
  newestMetrics,
  newestMetricsQuery,
  type SandboxMetric,
  sandboxMetric,
} from "../../contract/management/sandbox-metric.ts";
import {
  highestTeamMetric,
  highestTeamMetricQuery,
  teamMetric,
  teamMetricsQuery,
} from "../../contract/management/team-metric.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { Sample } from "../../store/metric-blocks.ts";
import type { Team } from "../../store/people.ts";
import { sandboxIdFrom } from "./sandbox-path.ts";
import { type Route, route } from "./services.ts";

export const metricRoutes: readonly Route[] = [
  // Before the routes of one sandbox: "metrics" is not an id.
  route("GET /sandboxes/metrics", {
    auth: "key",
    summary: "Get the latest metrics of several sandboxes",
    query: newestMetricsQuery,
    success: [{ status: 200, description: "Sandboxes with metrics", schema: newestMetrics }],
    async handle({ caller, query }, { activity }) {
      const sandboxes: Record<string, SandboxMetric> = {};
      for (const id of query.sandbox_ids) {
        const sample = await activity.metrics.newest(caller.team.id, id);
        if (sample !== undefined) sandboxes[id] = asMetric(sample);
      }
      return { body: { sandboxes } };
    },
  }),
  route("GET /sandboxes/{sandboxID}/metrics", {
    auth: "key",
    summary: "Get metrics of one sandbox over time",
    query: metricsQuery,
    success: [{ status: 200, description: "Oldest first", schema: z.array(sandboxMetric) }],
    async handle({ caller, params, query }, { activity }) {
      const { from, to } = spanOf(query);
      const samples = await activity.metrics.read(caller.team.id, sandboxIdFrom(params.sandboxID), from, to);
      return { body: samples.map(asMetric) };
    },
  }),
  route("GET /teams/{teamID}/metrics", {
    auth: "key",
    summary: "Get the team's running sandboxes and start rate over time",
    query: teamMetricsQuery,
    success: [{ status: 200, description: "Oldest first", schema: z.array(teamMetric) }],
    errors: [403],
    async handle({ caller, params, query }, { activity }) {
      requireOwn(caller.team, params.teamID);
      const { from, to } = spanOf(query);
      // Flushed first: the numbers must contain every event whose response the caller has already received.
      await activity.events.flush();
      const points = await activity.teams.read(caller.team.id, from, to);
      return { body: points.map(({ at, ...values }) => ({ ...timesOf(at), ...values })) };
    },
  }),
  route("GET /teams/{teamID}/metrics/max", {
    auth: "key",
    summary: "Get the maximum of a team metric and the time it was first reached",
    query: highestTeamMetricQuery,
    success: [{ status: 200, description: "Zero without data for that time", schema: highestTeamMetric }],
    errors: [403],
    async handle({ caller, params, query }, { activity }) {
      requireOwn(caller.team, params.teamID);
      const { from, to } = spanOf(query);
      await activity.events.flush();
      const { at, value } = await activity.teams.highest(caller.team.id, query.metric, from, to);
      return { body: { ...timesOf(at), value } };
    },
  }),
];

function requireOwn(team: Team, id = ""): void {
  if (!UUID.test(id)) throw new Fault(400, `invalid team id ${quoted(id)}; it is a UUID`);
  if (id.toLowerCase() !== team.id) throw new Fault(403, `the API key belongs to another team than ${quoted(id)}`);
}

/** Converts seconds to milliseconds: both ends inclusive, the last second to its end. */
function spanOf({ start, end }: z.infer<typeof metricsQuery>): { from: number | undefined; to: number | undefined } {
  if (start !== undefined && end !== undefined && start > end) {
    throw new Fault(400, `start (${start}) is after end (${end}); both are seconds since 1970`);
  }
  return {
    from: start === undefined ? undefined : start * 1000,
    to: end === undefined ? undefined : end * 1000 + 999,
  };
}

function asMetric({ at, ...sample }: Sample): SandboxMetric {
  return { ...timesOf(at), ...sample };
}

function timesOf(at: number): { timestamp: string; timestampUnix: number } {
  return { timestamp: new Date(at).toISOString(), timestampUnix: Math.floor(at / 1000) };
}
