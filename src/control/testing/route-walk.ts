/** Requests for each route by which a team could try to learn about another team's resources. */
import type { Named } from "./tenant.ts";

interface Question {
  body?: Record<string, unknown>;
  query?: Record<string, string>;
}

interface Walked {
  /** A route can be called in several ways; none may reveal anything. The path's parameters are filled in. */
  ask?(named: Named, asker: Named): Question[];
  /** It creates something, so responses differ in what was created. */
  makes?: true;
  /** The status that the owner itself gets, if not a success: apart from the team, the request must be right. */
  ownStatus?: number;
  /** The request names nothing that a team owns; only what it lists or creates can be checked. */
  namesNothing?: true;
}

const dockerfile = "FROM debian:12";
const webhook = {
  name: "n",
  url: "https://receiver.example/",
  signatureSecret: "s",
  events: ["sandbox.lifecycle.killed"],
};
const plain: Walked = {};
const nothing: Walked = { namesNothing: true };
const withBody = (body: Record<string, unknown>): Walked => ({ ask: () => [{ body }] });
const creates: Walked = {
  makes: true,
  ask: ({ templateID, snapshotID, alias, slug, tag, buildID, volumeName }) => [
    ...[templateID, snapshotID, alias, `${slug}/${alias}`, `${alias}:${tag}`, `${templateID}:${buildID}`].map((of) => ({
      body: { templateID: of },
    })),
    { body: { templateID: "base", volumeMounts: [{ name: volumeName, path: "/data" }] } },
  ],
};
const namesTemplate = (field: string, rest: Record<string, unknown>): Walked => ({
  ask: ({ templateID, alias, slug, snapshotID }) =>
    [templateID, alias, `${slug}/${alias}`, snapshotID].map((of) => ({ body: { [field]: of, ...rest } })),
});
const requests = (field: string): Walked => ({
  makes: true,
  ask: ({ templateID, snapshotID, alias, slug, teamID }) => [
    ...[templateID, snapshotID, alias, `${slug}/${alias}`].map((of) => ({ body: { [field]: of } })),
    { body: { [field]: "mine", teamID } },
  ],
});
/** Only administrators may call it. */
const admins: Walked = { ownStatus: 401 };
const entry: Walked = { ask: () => [{ query: { path: "x" } }] };

/** Every route of the OpenAPI document is here. A new one must be added with its requests, so that it is tested too. */
export const WALK: Record<string, Walked> = {
  "GET /health": nothing,
  "GET /openapi.json": nothing,
  "GET /teams": { namesNothing: true, makes: true },
  "GET /api-keys": nothing,
  "POST /api-keys": { ...withBody({ name: "new" }), namesNothing: true, makes: true },
  "PATCH /api-keys/{apiKeyID}": withBody({ name: "renamed" }),
  "DELETE /api-keys/{apiKeyID}": plain,
  "POST /access-tokens": { ...withBody({ name: "new" }), namesNothing: true, makes: true },
  "DELETE /access-tokens/{accessTokenID}": plain,
  "GET /sandboxes/metrics": {
    ask: ({ sandboxID, restingID }) => [{ query: { sandbox_ids: sandboxID } }, { query: { sandbox_ids: restingID } }],
  },
  "GET /sandboxes/{sandboxID}/metrics": plain,
  "GET /teams/{teamID}/metrics": plain,
  "GET /teams/{teamID}/metrics/max": { ask: () => [{ query: { metric: "concurrent_sandboxes" } }] },
  "POST /sandboxes": creates,
  "POST /v2/sandboxes": creates,
  "GET /sandboxes": nothing,
  "GET /v2/sandboxes": {
    ask: ({ templateID, alias, slug }) =>
      [templateID, alias, `${slug}/${alias}`].map((template) => ({ query: { template } })),
  },
  "GET /sandboxes/{sandboxID}": plain,
  "DELETE /sandboxes/{sandboxID}": plain,
  "POST /sandboxes/{sandboxID}/connect": withBody({ timeout: 60 }),
  "POST /v2/sandboxes/{sandboxID}/connect": withBody({ timeout: 60 }),
  "POST /sandboxes/{sandboxID}/pause": plain,
  "POST /sandboxes/{sandboxID}/resume": withBody({}),
  "POST /sandboxes/{sandboxID}/timeout": withBody({ timeout: 60 }),
  "POST /sandboxes/{sandboxID}/refreshes": withBody({ duration: 60 }),
  "PUT /sandboxes/{sandboxID}/network": withBody({ allowOut: ["8.8.8.8/32"] }),
  "POST /sandboxes/{sandboxID}/fork": withBody({ count: 1 }),
  "POST /sandboxes/{sandboxID}/snapshots": {
    makes: true,
    ask: ({ templateID, snapshotID, alias }) => [
      { body: {} },
      ...[templateID, snapshotID, alias].map((name) => ({ body: { name } })),
    ],
  },
  "GET /snapshots": {
    ask: ({ sandboxID, snapshotID, templateID, slug, alias }) => [
      { query: { sandboxID } },
      ...[snapshotID, templateID, alias, `${slug}/${alias}`].map((name) => ({ query: { name } })),
    ],
  },
  "GET /templates": { ask: ({ teamID }) => [{ query: { teamID } }] },
  "GET /v2/templates": nothing,
  "POST /templates/tags": namesTemplate("target", { tags: ["taken"] }),
  "DELETE /templates/tags": namesTemplate("name", { tags: ["taken"] }),
  "GET /templates/aliases/{alias}": plain,
  "GET /templates/{templateID}/tags": plain,
  "GET /templates/{templateID}": plain,
  "PATCH /templates/{templateID}": withBody({ public: false }),
  "PATCH /v2/templates/{templateID}": withBody({ public: false }),
  "DELETE /templates/{templateID}": { ownStatus: 400 },
  "POST /v3/templates": requests("name"),
  "POST /v2/templates": requests("alias"),
  "POST /templates": {
    makes: true,
    ask: ({ templateID, alias, teamID }) => [
      { body: { dockerfile, alias: templateID } },
      { body: { dockerfile, alias } },
      { body: { dockerfile, teamID } },
    ],
  },
  "POST /templates/{templateID}": {
    ask: ({ teamID }) => [{ body: { dockerfile } }, { body: { dockerfile, teamID } }],
    makes: true,
  },
  "GET /templates/{templateID}/files/{hash}": { makes: true },
  "PUT /templates/{templateID}/files/{hash}": {
    // The caller's own link, changed to another target. The owner's link itself would be accepted from any client.
    ask: (_, { signature, expires, bytes }) => [{ query: { signature, expires, bytes } }],
    ownStatus: 403,
  },
  "POST /v2/templates/{templateID}/builds/{buildID}": {
    ask: ({ templateID, alias, slug }) =>
      ["base", templateID, alias, `${slug}/${alias}`].map((fromTemplate) => ({ body: { fromTemplate } })),
  },
  "POST /templates/{templateID}/builds/{buildID}": plain,
  "GET /templates/{templateID}/builds/{buildID}/status": plain,
  "GET /templates/{templateID}/builds/{buildID}/logs": plain,
  "GET /sandboxes/{sandboxID}/logs": plain,
  "GET /v2/sandboxes/{sandboxID}/logs": plain,
  "GET /events/sandboxes": nothing,
  "GET /events/sandboxes/{sandboxID}": plain,
  "POST /events/webhooks": { ...withBody(webhook), namesNothing: true, makes: true },
  "GET /events/webhooks": nothing,
  "GET /events/webhooks/{webhookID}": plain,
  "PATCH /events/webhooks/{webhookID}": withBody({ name: "renamed" }),
  "DELETE /events/webhooks/{webhookID}": plain,
  "GET /events/webhooks/{webhookID}/deliveries": plain,
  "GET /events/webhooks/{webhookID}/stats": plain,
  "GET /volumes": nothing,
  "POST /volumes": { makes: true, ask: ({ volumeName }) => [{ body: { name: volumeName } }], ownStatus: 400 },
  "GET /volumes/{volumeID}": plain,
  "DELETE /volumes/{volumeID}": { ownStatus: 409 },
  "GET /volumecontent/{volumeID}/path": entry,
  "PATCH /volumecontent/{volumeID}/path": { ask: () => [{ query: { path: "x" }, body: { mode: 0o600 } }] },
  "DELETE /volumecontent/{volumeID}/path": entry,
  "GET /volumecontent/{volumeID}/dir": entry,
  "POST /volumecontent/{volumeID}/dir": entry,
  "GET /volumecontent/{volumeID}/file": { ...entry, ownStatus: 404 },
  "PUT /volumecontent/{volumeID}/file": entry,
  "GET /secrets": nothing,
  "POST /secrets": {
    makes: true,
    ask: ({ secretName }) => [{ body: { name: secretName, value: "v" } }],
    ownStatus: 409,
  },
  "GET /secrets/{secretID}": plain,
  "POST /secrets/{secretID}": withBody({ value: "v" }),
  "GET /secrets/{secretID}/uses": plain,
  "DELETE /secrets/{secretID}": plain,
  "GET /nodes": admins,
  "GET /nodes/{nodeID}": admins,
  "POST /nodes/{nodeID}": admins,
  "GET /admin/teams": admins,
  "POST /admin/teams": admins,
  "PATCH /admin/teams/{teamID}": admins,
  "DELETE /admin/teams/{teamID}": admins,
  "POST /admin/teams/{teamID}/members": admins,
  "PATCH /admin/teams/{teamID}/members/{userID}": admins,
  "DELETE /admin/teams/{teamID}/members/{userID}": admins,
  "POST /admin/teams/{teamID}/api-keys": admins,
  "DELETE /admin/teams/{teamID}/api-keys/{apiKeyID}": admins,
  "GET /admin/users": admins,
  "POST /admin/users": admins,
  "DELETE /admin/users/{userID}": admins,
  "POST /admin/teams/{teamID}/sandboxes/kill": admins,
  "POST /admin/teams/{teamID}/builds/cancel": admins,
  "GET /admin/sandboxes/running-counts": admins,
  "GET /admin/sandboxes/{sandboxID}": admins,
  "GET /admin/audit": admins,
};
