/** The routes of secrets. No response has a value. */
import { z } from "zod";
import { page } from "../../contract/management/identifiers.ts";
import {
  createSecret,
  listSecretsQuery,
  secretUse,
  secretView,
  updateSecret,
} from "../../contract/management/secret.ts";
import { NEXT_TOKEN, withToken } from "../views/page-token.ts";
import { asSecret, listSecrets, listUses } from "../views/secret-list.ts";
import { type Route, route } from "./services.ts";

export const secretRoutes: readonly Route[] = [
  route("GET /secrets", {
    auth: "key",
    summary: "List secrets, newest first",
    noStore: true,
    query: listSecretsQuery,
    success: [{ status: 200, description: "One page", schema: z.array(secretView), headers: NEXT_TOKEN }],
    async handle({ caller, query }, { store }) {
      const { secrets, nextToken } = await listSecrets(store, caller.team, query);
      return { body: secrets, headers: withToken(nextToken) };
    },
  }),
  route("POST /secrets", {
    auth: "key",
    summary: "Create a secret",
    noStore: true,
    body: { schema: createSecret, required: true },
    success: [{ status: 201, description: "The secret, without its value", schema: secretView }],
    errors: [403, 409],
    async handle({ caller, body }, { secrets }) {
      const { name, value, metadata = null } = body;
      return { body: asSecret(await secrets.create(caller.team, { name, value, metadata })) };
    },
  }),
  route("GET /secrets/{secretID}", {
    auth: "key",
    summary: "Get a secret by id or name, without its value",
    noStore: true,
    success: [{ status: 200, description: "The secret", schema: secretView }],
    async handle({ caller, params }, { secrets }) {
      return { body: asSecret(await secrets.require(caller.team, params.secretID)) };
    },
  }),
  route("POST /secrets/{secretID}", {
    auth: "key",
    summary: "Set a new value of a secret; it applies to the next request",
    noStore: true,
    body: { schema: updateSecret, required: true },
    success: [{ status: 200, description: "The secret with its new version", schema: secretView }],
    errors: [403],
    async handle({ caller, params, body }, { secrets }) {
      const { value, metadata = null } = body;
      return { body: asSecret(await secrets.update(caller.team, params.secretID, { value, metadata })) };
    },
  }),
  route("DELETE /secrets/{secretID}", {
    auth: "key",
    summary: "Delete a secret with all versions",
    noStore: true,
    success: [{ status: 204, description: "Deleted; requests that need it fail" }],
    async handle({ caller, params }, { secrets }) {
      await secrets.delete(caller.team, params.secretID);
    },
  }),
  route("GET /secrets/{secretID}/uses", {
    auth: "key",
    summary: "List which sandboxes used a secret for which hosts, last use first",
    noStore: true,
    query: z.object(page),
    success: [{ status: 200, description: "One page", schema: z.array(secretUse), headers: NEXT_TOKEN }],
    async handle({ caller, params, query }, { store, secrets, secretUses }) {
      const secret = await secrets.require(caller.team, params.secretID);
      await secretUses.flush();
      const { uses, nextToken } = await listUses(store, secret, query);
      return { body: uses, headers: withToken(nextToken) };
    },
  }),
];
