/** The routes of events. */
import { z } from "zod";
import { ACTIVITY_KEPT_MS } from "../../contract/limits.ts";
import { listEventsQuery, sandboxEvent } from "../../contract/management/sandbox-event.ts";
import type { RouteResult } from "../http/route.ts";
import { asEvent } from "../webhooks/sandbox-event-view.ts";
import { sandboxIdFrom } from "./sandbox-path.ts";
import { type Route, route, type Services } from "./services.ts";

const success = [{ status: 200, description: "Newest first unless orderAsc", schema: z.array(sandboxEvent) }];

export const eventRoutes: readonly Route[] = [
  route("GET /events/sandboxes", {
    auth: "key",
    summary: "List events of the team's sandboxes",
    query: listEventsQuery,
    success,
    handle: ({ caller, query }, services) => list(services, caller.team.id, undefined, query),
  }),
  route("GET /events/sandboxes/{sandboxID}", {
    auth: "key",
    summary: "List events of one sandbox",
    query: listEventsQuery,
    success,
    handle: ({ caller, params, query }, services) =>
      list(services, caller.team.id, sandboxIdFrom(params.sandboxID), query),
  }),
];

async function list(
  { store, activity, clock }: Services,
  teamId: string,
  sandboxId: string | undefined,
  query: z.infer<typeof listEventsQuery>,
): Promise<RouteResult> {
  // Flushed first: the list must contain every event whose response the caller has already received.
  await activity.events.flush();
  const events = await store.sandboxEvents.list({
    teamId,
    sandboxId,
    types: query.types ?? [],
    since: clock.now() - ACTIVITY_KEPT_MS,
    ascending: query.orderAsc === "true",
    offset: query.offset,
    limit: query.limit,
  });
  return { status: 200, body: events.map(asEvent) };
}
