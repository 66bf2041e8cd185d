/**
 * The routes of API keys and access tokens. They authenticate a user: a team's key cannot make others, so revoking a
 * stolen key is enough.
 */
import { z } from "zod";
import {
  type ApiKeyView,
  apiKeyView,
  createdAccessToken,
  createdApiKey,
  namedKey,
} from "../../contract/management/api-key.ts";
import { ACCESS_TOKEN_PREFIX, API_KEY_PREFIX } from "../../contract/management/identifiers.ts";
import type { AccessToken, ListedApiKey, Mask } from "../../store/keys.ts";
import {
  createAccessToken,
  createApiKey,
  refuseBlocked,
  renameApiKey,
  revokeAccessToken,
  revokeApiKey,
} from "../access/keys.ts";
import { type Route, route } from "./services.ts";

export const keyRoutes: readonly Route[] = [
  route("GET /api-keys", {
    auth: "member",
    summary: "List the team's API keys, oldest first, without the keys themselves",
    success: [{ status: 200, description: "All of the team", schema: z.array(apiKeyView) }],
    errors: [403],
    async handle({ caller: { team } }, services) {
      return { body: (await services.store.keys.apiKeysOf(team.id)).map(asApiKey) };
    },
  }),
  route("POST /api-keys", {
    auth: "member",
    summary: "Create an API key for the team; only this response contains it",
    body: { schema: namedKey, required: true },
    success: [{ status: 201, description: "The new API key", schema: createdApiKey }],
    errors: [403, 429],
    async handle({ caller: { team, userId, email }, body, origin }, services) {
      refuseBlocked(team);
      const request = { teamId: team.id, name: body.name, createdBy: userId };
      const { secret, key } = await createApiKey({ ...services, origin }, request);
      return { body: { ...asApiKey({ ...key, creatorEmail: email }), key: secret } };
    },
  }),
  route("PATCH /api-keys/{apiKeyID}", {
    auth: "member",
    summary: "Rename an API key",
    body: { schema: namedKey, required: true },
    success: [{ status: 200, description: "The key is renamed" }],
    errors: [403],
    async handle({ caller: { team }, params, body, origin }, services) {
      refuseBlocked(team);
      await renameApiKey({ ...services, origin }, team.id, params.apiKeyID, body.name);
    },
  }),
  route("DELETE /api-keys/{apiKeyID}", {
    auth: "member",
    summary: "Delete an API key; it stops working with the next request",
    success: [{ status: 204, description: "Deleted" }],
    errors: [403],
    async handle({ caller: { team }, params, origin }, services) {
      await revokeApiKey({ ...services, origin }, team.id, params.apiKeyID);
    },
  }),
  route("POST /access-tokens", {
    auth: "bearer",
    summary: "Create an access token for the user; only this response contains it",
    body: { schema: namedKey, required: true },
    success: [{ status: 201, description: "The new access token", schema: createdAccessToken }],
    errors: [429],
    async handle({ caller: { userId }, body, origin }, services) {
      const { secret, token } = await createAccessToken({ ...services, origin }, { userId, name: body.name });
      return { body: { ...asAccessToken(token), token: secret } };
    },
  }),
  route("DELETE /access-tokens/{accessTokenID}", {
    auth: "bearer",
    summary: "Delete an access token of the user; may be the one in use",
    success: [{ status: 204, description: "Deleted; it stops working with the next request" }],
    async handle({ caller: { userId }, params, origin }, services) {
      await revokeAccessToken({ ...services, origin }, userId, params.accessTokenID);
    },
  }),
];

export function asApiKey(key: ListedApiKey): ApiKeyView {
  const { id, name, createdAt, createdBy, creatorEmail, lastUsedAt } = key;
  return {
    id,
    name,
    mask: asMask(API_KEY_PREFIX, key),
    createdAt: new Date(createdAt).toISOString(),
    ...(createdBy === null ? {} : { createdBy: { id: createdBy, email: creatorEmail } }),
    ...(lastUsedAt === null ? {} : { lastUsed: new Date(lastUsedAt).toISOString() }),
  };
}

function asAccessToken(token: AccessToken) {
  const { id, name, createdAt } = token;
  return { id, name, mask: asMask(ACCESS_TOKEN_PREFIX, token), createdAt: new Date(createdAt).toISOString() };
}

function asMask(prefix: string, { maskPrefix, maskSuffix, valueLength }: Mask): ApiKeyView["mask"] {
  return { prefix, valueLength, maskedValuePrefix: maskPrefix, maskedValueSuffix: maskSuffix };
}
