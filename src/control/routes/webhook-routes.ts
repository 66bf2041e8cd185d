/** The routes of webhooks. */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import {
  createWebhook,
  deliveriesQuery,
  deliveriesView,
  statsQuery,
  statsView,
  updateWebhook,
  webhookView,
} from "../../contract/management/webhook.ts";
import type { Webhook } from "../../store/webhooks.ts";
import { listDeliveries } from "../views/delivery-list.ts";
import { statsOf } from "../webhooks/webhook-history.ts";
import { addWebhook, changeWebhook, requireWebhook } from "../webhooks/webhooks.ts";
import { type Route, route } from "./services.ts";

export const webhookRoutes: readonly Route[] = [
  route("POST /events/webhooks", {
    auth: "key",
    summary: "Create a webhook",
    body: { schema: createWebhook, required: true },
    success: [{ status: 201, description: "The webhook receives events from now on", schema: webhookView }],
    errors: [429],
    async handle({ caller, body }, services) {
      return { body: asWebhook(await addWebhook(services, caller.team.id, body)) };
    },
  }),
  route("GET /events/webhooks", {
    auth: "key",
    summary: "List webhooks",
    success: [{ status: 200, description: "All of the team", schema: z.array(webhookView) }],
    async handle({ caller }, { store }) {
      return { body: (await store.webhooks.of(caller.team.id)).map(asWebhook) };
    },
  }),
  route("GET /events/webhooks/{webhookID}", {
    auth: "key",
    summary: "Get a webhook",
    success: [{ status: 200, description: "The webhook", schema: webhookView }],
    async handle({ caller, params }, { store }) {
      return { body: asWebhook(await requireWebhook(store, caller.team.id, params.webhookID)) };
    },
  }),
  route("PATCH /events/webhooks/{webhookID}", {
    auth: "key",
    summary: "Change a webhook",
    body: { schema: updateWebhook, required: true },
    success: [{ status: 200, description: "The updated webhook", schema: webhookView }],
    async handle({ caller, params, body }, services) {
      return { body: asWebhook(await changeWebhook(services, caller.team.id, params.webhookID, body)) };
    },
  }),
  route("DELETE /events/webhooks/{webhookID}", {
    auth: "key",
    summary: "Delete a webhook",
    success: [{ status: 200, description: "The webhook and its queued messages are deleted" }],
    async handle({ caller, params }, { store }) {
      const { id, teamId } = await requireWebhook(store, caller.team.id, params.webhookID);
      if (!(await store.webhooks.remove(teamId, id))) throw new Fault(404, `webhook "${id}" does not exist`);
    },
  }),
  route("GET /events/webhooks/{webhookID}/deliveries", {
    auth: "key",
    summary: "List deliveries to a webhook",
    query: deliveriesQuery,
    success: [{ status: 200, description: "One page, newest first unless orderAsc", schema: deliveriesView }],
    async handle({ caller, params, query }, { store }) {
      const { id } = await requireWebhook(store, caller.team.id, params.webhookID);
      return { body: await listDeliveries(store, id, query) };
    },
  }),
  route("GET /events/webhooks/{webhookID}/stats", {
    auth: "key",
    summary: "Get delivery statistics of a webhook",
    query: statsQuery,
    success: [{ status: 200, description: "Delivery attempts in that time", schema: statsView }],
    async handle({ caller, params, query }, { store, clock }) {
      const { id } = await requireWebhook(store, caller.team.id, params.webhookID);
      return { body: await statsOf(store, id, query, clock.now()) };
    },
  }),
];

function asWebhook({ id, teamId, name, url, enabled, events, createdAt }: Webhook): z.infer<typeof webhookView> {
  return { id, teamId, name, createdAt: new Date(createdAt).toISOString(), url, enabled, events };
}
