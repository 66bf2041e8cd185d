/** Creates and changes webhooks. */
import { Fault } from "../../contract/fault.ts";
import { UUID } from "../../contract/management/identifiers.ts";
import type { CreateWebhook, UpdateWebhook } from "../../contract/management/webhook.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { Store } from "../../store/store.ts";
import type { Webhook } from "../../store/webhooks.ts";
import { lockTeam } from "../access/people.ts";
import type { Parts } from "../parts.ts";
import { checkedUrl } from "./webhook-address.ts";

export const WEBHOOKS_PER_TEAM_MAX = 20;

interface WebhookServices extends Pick<Parts, "store" | "ids" | "clock"> {
  /** Whether webhooks may target private addresses. */
  activity: { readonly allowsInside: boolean };
}

export async function addWebhook(
  { store, ids, clock, activity }: WebhookServices,
  teamId: string,
  request: CreateWebhook,
): Promise<Webhook> {
  const webhook: Webhook = {
    id: ids.uuid(),
    teamId,
    name: request.name,
    url: checkedUrl(request.url, activity.allowsInside).href,
    events: request.events,
    secret: request.signatureSecret,
    enabled: request.enabled ?? true,
    createdAt: clock.now(),
  };
  return store.transaction(async (tables) => {
    await lockTeam(tables, teamId);
    if ((await tables.webhooks.of(teamId)).length >= WEBHOOKS_PER_TEAM_MAX) {
      throw new Fault(429, `a team has at most ${WEBHOOKS_PER_TEAM_MAX} webhooks; delete one first`);
    }
    await tables.webhooks.add(webhook);
    return webhook;
  });
}

export async function changeWebhook(
  { store, activity }: Pick<WebhookServices, "store" | "activity">,
  teamId: string,
  id: string | undefined,
  request: UpdateWebhook,
): Promise<Webhook> {
  const url = request.url == null ? undefined : checkedUrl(request.url, activity.allowsInside).href;
  return store.transaction(async (tables) => {
    // A change at the same time must not undo this one.
    await lockTeam(tables, teamId);
    const before = await requireWebhook(tables, teamId, id);
    const webhook: Webhook = {
      ...before,
      name: request.name ?? before.name,
      url: url ?? before.url,
      events: request.events ?? before.events,
      secret: request.signatureSecret ?? before.secret,
      enabled: request.enabled ?? before.enabled,
    };
    await tables.webhooks.replace(webhook);
    return webhook;
  });
}

/** The team's webhook, or a Fault. */
export async function requireWebhook({ webhooks }: Pick<Store, "webhooks">, teamId: string, id = ""): Promise<Webhook> {
  if (!UUID.test(id)) throw new Fault(400, `invalid webhook id ${quoted(id)}; it is a UUID`);
  const webhook = await webhooks.byId(id.toLowerCase());
  if (webhook === undefined || webhook.teamId !== teamId) throw new Fault(404, `webhook "${id}" does not exist`);
  return webhook;
}
