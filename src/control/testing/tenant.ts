/** A team with one resource of every kind, and their names, for tests of isolation between teams. */
import { expect } from "bun:test";
import { tarOf } from "../../base/testing/raw-tar.ts";
import { createAccessToken, createApiKey } from "../access/keys.ts";
import { type ControlFixture, NOW, type Reply } from "./control-fixture.ts";

/** One name per kind, equal to the parameter names of paths. */
export interface Named {
  sandboxID: string;
  /** Paused. */
  restingID: string;
  templateID: string;
  alias: string;
  tag: string;
  buildID: string;
  snapshotID: string;
  hash: string;
  webhookID: string;
  volumeID: string;
  volumeName: string;
  secretID: string;
  secretName: string;
  apiKeyID: string;
  accessTokenID: string;
  teamID: string;
  userID: string;
  /** Of no node: teams may not call its routes. */
  nodeID: string;
  slug: string;
  /** Signature of an upload link of the team. */
  signature: string;
  expires: string;
  bytes: string;
}

export interface Credentials {
  apiKey: string;
  accessToken: string;
  teamID: string;
  volumeToken: string;
}

export interface Tenant {
  names: Named;
  credentials: Credentials;
  /** Text that appears in its resources. */
  marks: string[];
}

/** Authentication headers for each kind of route. */
export function headersOf(auth: string, credentials: Credentials): Record<string, string> {
  const { apiKey, accessToken, teamID, volumeToken } = credentials;
  const bearer = { Authorization: `Bearer ${auth === "volume" ? volumeToken : accessToken}` };
  if (auth === "key") return { "X-API-Key": apiKey };
  if (auth === "member") return { ...bearer, "X-Team-ID": teamID };
  return auth === "none" ? {} : bearer;
}

/** A user and a team of this name, with one resource of every kind. */
export async function makeTenant(fixture: ControlFixture, slug: string): Promise<Tenant> {
  const [userId, teamID] = [fixture.ids.uuid(), fixture.ids.uuid()];
  await fixture.store.people.addUser({ id: userId, email: `${slug}@example.com`, createdAt: NOW });
  await fixture.store.people.addTeam({ id: teamID, name: slug, slug, limits: {}, createdAt: NOW });
  await fixture.store.people.join(userId, teamID, true);
  const { secret: apiKey, key } = await createApiKey(fixture, {
    teamId: teamID,
    name: `key-${slug}`,
    createdBy: userId,
  });
  const { secret: accessToken, token } = await createAccessToken(fixture, { userId, name: `token-${slug}` });
  const mark = `mark-of-${slug}`;

  async function call(method: string, path: string, body?: unknown, status = 201): Promise<Record<string, string>> {
    const headers = { "X-API-Key": apiKey, Authorization: `Bearer ${accessToken}` };
    const reply: Reply = await fixture.call(method, path, body, headers);
    expect([reply.status, reply.body?.message]).toEqual([status, undefined as never]);
    return (reply.body ?? {}) as unknown as Record<string, string>;
  }

  const webhook = { name: mark, url: `https://${slug}.example/`, signatureSecret: mark };
  const events = ["sandbox.lifecycle.created"];
  const { id: webhookID = "" } = await call("POST", "/events/webhooks", { ...webhook, events });
  const volumeName = `volume-${slug}`;
  const { volumeID = "", token: volumeToken = "" } = await call("POST", "/volumes", { name: volumeName });
  const secretName = `secret-${slug}`;
  const { secretID = "" } = await call("POST", "/secrets", { name: secretName, value: mark, metadata: { mark } });
  const dockerfile = { dockerfile: "FROM debian:12\nRUN true", alias: `web-${slug}` };
  const { templateID = "", buildID = "" } = await call("POST", "/templates", dockerfile, 202);
  const status = `/templates/${templateID}/builds/${buildID}/status`;
  await fixture.until(async () => (await call("GET", status, undefined, 200)).status === "ready");
  const tag = `tag-${slug}`;
  await call("POST", "/templates/tags", { target: dockerfile.alias, tags: [tag] });
  const hash = Buffer.from(slug.padEnd(32, "-").slice(0, 32)).toString("hex");
  const { url = "" } = await call("GET", `/templates/${templateID}/files/${hash}`);
  await fixture.control.handle(new Request(url, { method: "PUT", body: tarOf({ [mark]: mark }) }));
  const link = new URL(url).searchParams;

  const request = { templateID: dockerfile.alias, timeout: 3600, metadata: { mark }, envVars: { MARK: mark } };
  const volumeMounts = [{ name: volumeName, path: "/data" }];
  const { sandboxID = "" } = await call("POST", "/v2/sandboxes", { ...request, volumeMounts });
  const { sandboxID: restingID = "" } = await call("POST", "/v2/sandboxes", request);
  await call("POST", `/sandboxes/${restingID}/pause`, undefined, 204);
  const made = await call("POST", `/sandboxes/${sandboxID}/snapshots`, {});
  await fixture.host.say(sandboxID, [{ at: fixture.clock.now(), level: "info", message: mark, fields: {} }], "1");
  const names: Named = {
    sandboxID,
    restingID,
    templateID,
    alias: dockerfile.alias,
    tag,
    buildID,
    snapshotID: String(made.snapshotID).replace(":default", ""),
    hash,
    webhookID,
    volumeID,
    volumeName,
    secretID,
    secretName,
    apiKeyID: key.id,
    accessTokenID: token.id,
    teamID,
    userID: userId,
    nodeID: `node-of-${slug}`,
    slug,
    signature: link.get("signature") ?? "",
    expires: link.get("expires") ?? "",
    bytes: link.get("bytes") ?? "",
  };
  return { names, credentials: { apiKey, accessToken, teamID, volumeToken }, marks: [mark, `${slug}@example.com`] };
}

/** Names of the same form, of resources that never existed. */
export function absentNames(fixture: ControlFixture, of: Named): Named {
  const other = (name: string) => `${name.slice(0, -1)}${name.endsWith("q") ? "x" : "q"}`;
  return {
    sandboxID: `i${fixture.ids.templateId()}`,
    restingID: `i${fixture.ids.templateId()}`,
    templateID: fixture.ids.templateId(),
    alias: other(of.alias),
    tag: other(of.tag),
    buildID: fixture.ids.uuid(),
    snapshotID: fixture.ids.templateId(),
    hash: Buffer.from(fixture.ids.templateId().padEnd(32, "0")).toString("hex"),
    webhookID: fixture.ids.uuid(),
    volumeID: fixture.ids.uuid(),
    volumeName: other(of.volumeName),
    secretID: `sec_${fixture.ids.templateId()}`,
    secretName: other(of.secretName),
    apiKeyID: fixture.ids.uuid(),
    accessTokenID: fixture.ids.uuid(),
    teamID: fixture.ids.uuid(),
    userID: fixture.ids.uuid(),
    nodeID: other(of.nodeID),
    slug: other(of.slug),
    signature: of.signature,
    expires: of.expires,
    bytes: of.bytes,
  };
}
