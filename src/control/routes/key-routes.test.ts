/** API keys and access tokens through their routes: their owners, their rights and their limits. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import type { z } from "zod";
import type { ApiKeyView, createdAccessToken, createdApiKey } from "../../contract/management/api-key.ts";
import { ACCESS_TOKENS_PER_USER_MAX, API_KEYS_PER_TEAM_MAX, createAccessToken } from "../access/keys.ts";
import { ControlFixture, NOW, type Reply } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

/** A user with an access token that acts for a team. */
interface Member {
  userId: string;
  token: string;
  teamId: string;
}

async function operator(): Promise<Member> {
  const { userId, teamId } = fixture.firstRun;
  return { userId, teamId, token: (await createAccessToken(fixture, { userId, name: "test" })).secret };
}

/** A user with its own team. */
async function stranger(): Promise<Member> {
  const [userId, teamId] = [fixture.ids.uuid(), fixture.ids.uuid()];
  await fixture.store.people.addUser({ id: userId, email: "stranger@localhost", createdAt: NOW });
  await fixture.store.people.addTeam({ id: teamId, name: "strangers", slug: "strangers", limits: {}, createdAt: NOW });
  await fixture.store.people.join(userId, teamId, true);
  return { userId, teamId, token: (await createAccessToken(fixture, { userId, name: "test" })).secret };
}

const headersOf = ({ token, teamId }: Member) => ({ Authorization: `Bearer ${token}`, "X-Team-ID": teamId });

function as(member: Member, method: string, path: string, body?: unknown): Promise<Reply> {
  return fixture.call(method, path, body, headersOf(member));
}

async function makeKey(member: Member, name = "ci"): Promise<z.infer<typeof createdApiKey>> {
  const { status, body } = await as(member, "POST", "/api-keys", { name });
  expect(status).toBe(201);
  return body as unknown as z.infer<typeof createdApiKey>;
}

async function keysOf(member: Member): Promise<ApiKeyView[]> {
  const { status, body } = await as(member, "GET", "/api-keys");
  expect(status).toBe(200);
  return body as unknown as ApiKeyView[];
}

/** Those of one moment have no order. */
const namesOf = async (member: Member) => (await keysOf(member)).map(({ name }) => name).toSorted();
const statusWithKey = async (key: string) =>
  (await fixture.call("GET", "/sandboxes", undefined, { "X-API-Key": key })).status;
const refusal = ({ status, body }: Reply) => [status, body.message];

/** Until the team may have only `free` more. */
async function fillTeam(teamId: string, free: number): Promise<void> {
  await fixture.store.transaction(async ({ keys }) => {
    const mask = { maskPrefix: "00", maskSuffix: "0000", valueLength: 40 };
    for (let more = API_KEYS_PER_TEAM_MAX - free - (await keys.countApiKeys(teamId)); more > 0; more--) {
      const id = fixture.ids.uuid();
      const use = { createdAt: NOW, createdBy: null, lastUsedAt: null };
      await keys.addApiKey({ id, teamId, name: "filler", hash: `hash of ${id}`, ...mask, ...use });
    }
  });
}

describe("an API key", () => {
  test("is shown once, gives access to the team's sandboxes, is listed masked, renamed and deleted", async () => {
    const me = await operator();
    const made = await makeKey(me);
    expect(made).toEqual({
      id: expect.any(String),
      name: "ci",
      key: expect.stringMatching(/^e2b_[0-9a-f]{40}$/),
      mask: {
        prefix: "e2b_",
        valueLength: 40,
        maskedValuePrefix: made.key.slice(4, 6),
        maskedValueSuffix: made.key.slice(-4),
      },
      createdAt: new Date(NOW).toISOString(),
      createdBy: { id: me.userId, email: "operator@localhost" },
    });
    const { key, ...shown } = made;
    expect((await keysOf(me)).find(({ id }) => id === made.id)).toEqual(shown);

    await fixture.advance(1_000);
    expect(await statusWithKey(key)).toBe(200);
    expect((await as(me, "PATCH", `/api-keys/${made.id.toUpperCase()}`, { name: "deploy" })).status).toBe(200);
    const used = { ...shown, name: "deploy", lastUsed: new Date(NOW + 1_000).toISOString() };
    expect((await keysOf(me)).find(({ id }) => id === made.id)).toEqual(used);

    expect((await as(me, "DELETE", `/api-keys/${made.id}`)).status).toBe(204);
    expect(await statusWithKey(key)).toBe(401);
    expect(await namesOf(me)).toEqual(["first key"]);
    expect(refusal(await as(me, "DELETE", `/api-keys/${made.id}`))).toEqual([404, expect.stringContaining(made.id)]);
    expect((await as(me, "PATCH", `/api-keys/${made.id}`, { name: "back" })).status).toBe(404);
  });

  test("is in no file of the store, no log line and no later response", async () => {
    const me = await operator();
    const { key } = await makeKey(me);
    const { body } = await as(me, "POST", "/access-tokens", { name: "cli" });
    const { token } = body as unknown as z.infer<typeof createdAccessToken>;
    expect(await statusWithKey(key)).toBe(200);
    await as(me, "GET", "/teams");
    await fixture.restart();
    const stored = await Promise.all(
      (await readdir(fixture.folder)).map((name) => Bun.file(`${fixture.folder}/${name}`).bytes()),
    );
    const kept = [
      Buffer.concat(stored).toString("latin1"),
      fixture.logLines.join("\n"),
      JSON.stringify(await keysOf(me)),
    ];
    for (const secret of [key.slice("e2b_".length), token.slice("sk_e2b_".length)]) {
      for (const text of kept) expect(text.includes(secret)).toBe(false);
      expect(kept[0]).not.toContain(Buffer.from(secret, "hex").toString("latin1"));
    }
  });

  test.each([
    ["an API key alone", {}, 401, "takes no API key"],
    ["no team", { Authorization: "token" }, 401, "X-Team-ID header is missing"],
    ["a team that is no id", { Authorization: "token", "X-Team-ID": "default" }, 403, '"default"'],
    ["a very long one", { Authorization: "token", "X-Team-ID": "x".repeat(500) }, 403, `"${"x".repeat(64)}…"`],
  ])("is managed by a user of its team, not with %s", async (_, headers, status, message) => {
    const { token } = await operator();
    const sent: Record<string, string> = { ...headers };
    if (sent.Authorization !== undefined) sent.Authorization = `Bearer ${token}`;
    for (const [method, path, body] of [
      ["GET", "/api-keys"],
      ["POST", "/api-keys", { name: "x" }],
      ["PATCH", `/api-keys/${fixture.ids.uuid()}`, { name: "x" }],
      ["DELETE", `/api-keys/${fixture.ids.uuid()}`],
    ] as const) {
      expect(refusal(await fixture.call(method, path, body, sent))).toEqual([status, expect.stringContaining(message)]);
    }
  });

  test.each([
    ["", "must not be blank"],
    [" \u00a0 ", "must not be blank"],
    ["x".repeat(129), "128"],
    ["two\nlines", "control characters"],
    ["\u001b[2J", "control characters"],
    ["nul\u0000", "control characters"],
    ["c1\u009b", "control characters"],
    ["half \ud800", "broken Unicode"],
    [7, "name"],
    [null, "name"],
    [undefined, "name"],
  ])("cannot be called %j", async (name, reason) => {
    const me = await operator();
    const { id } = await makeKey(me);
    for (const [method, path] of [
      ["POST", "/api-keys"],
      ["PATCH", `/api-keys/${id}`],
      ["POST", "/access-tokens"],
    ] as const) {
      expect(refusal(await as(me, method, path, { name }))).toEqual([400, expect.stringContaining(reason)]);
    }
    expect(await namesOf(me)).toEqual(["ci", "first key"]);
  });

  test.each(["not-an-id", "%27%20OR%201%3D1", "0".repeat(36)])("is not found by %s", async (id) => {
    const me = await operator();
    for (const [method, path, body] of [
      ["PATCH", `/api-keys/${id}`, { name: "x" }],
      ["DELETE", `/api-keys/${id}`, undefined],
      ["DELETE", `/access-tokens/${id}`, undefined],
    ] as const) {
      expect(refusal(await as(me, method, path, body))).toEqual([400, expect.stringContaining("it is a UUID")]);
    }
  });

  test("may have any name of 128 characters, also that of another key", async () => {
    const me = await operator();
    const name = `🔑 ${"ñ".repeat(125)}`;
    for (let times = 0; times < 2; times++) expect((await makeKey(me, name)).name).toBe(name);
  });

  test("above the team's limit is rejected, also under concurrency; a deletion frees a place", async () => {
    const [me, other] = [await operator(), await stranger()];
    const { id } = await makeKey(me);
    await fillTeam(me.teamId, 2);
    const replies = await Promise.all(Array.from({ length: 6 }, () => as(me, "POST", "/api-keys", { name: "race" })));
    expect(replies.map(({ status }) => status).toSorted()).toEqual([201, 201, 429, 429, 429, 429]);
    const refused = replies.find(({ status }) => status === 429);
    expect(refused?.headers.has("retry-after")).toBe(false);
    expect(refused?.body.message).toContain(`${API_KEYS_PER_TEAM_MAX} API keys`);
    expect(refused?.body.message).toContain("DELETE /api-keys/{apiKeyID}");
    expect(await keysOf(me)).toHaveLength(API_KEYS_PER_TEAM_MAX);
    await makeKey(other);
    expect((await as(me, "DELETE", `/api-keys/${id}`)).status).toBe(204);
    await makeKey(me);
  });

  test("is made for each team of a login, or for none", async () => {
    const [me, other] = [await operator(), await stranger()];
    await fixture.store.people.join(me.userId, other.teamId, false);
    await fillTeam(other.teamId, 0);
    const refused = await as(me, "GET", "/teams");
    expect(refusal(refused)).toEqual([429, expect.stringContaining(other.teamId)]);
    expect(await keysOf(me)).toHaveLength(1);
  });

  test("may be deleted even if it is the last; a member or the next start creates another", async () => {
    const me = await operator();
    const [last] = await keysOf(me);
    expect((await as(me, "DELETE", `/api-keys/${last?.id}`)).status).toBe(204);
    expect(await keysOf(me)).toEqual([]);
    expect(await statusWithKey(fixture.apiKey)).toBe(401);
    await fixture.restart();
    expect(await statusWithKey(fixture.firstRun.firstApiKey ?? "")).toBe(200);
    expect(await statusWithKey((await makeKey(me)).key)).toBe(200);
  });

  test("of a blocked team can be listed and deleted, but not created or renamed", async () => {
    const me = await operator();
    const { id } = await makeKey(me);
    await fixture.store.people.setLimits(me.teamId, { blocked: true });
    const blocked = [403, expect.stringContaining("blocked")];
    expect(refusal(await as(me, "POST", "/api-keys", { name: "more" }))).toEqual(blocked);
    expect(refusal(await as(me, "PATCH", `/api-keys/${id}`, { name: "other" }))).toEqual(blocked);
    expect(await namesOf(me)).toEqual(["ci", "first key"]);
    expect((await as(me, "DELETE", `/api-keys/${id}`)).status).toBe(204);
  });
});

describe("an access token", () => {
  async function makeToken(member: Member): Promise<z.infer<typeof createdAccessToken>> {
    const { status, body } = await as(member, "POST", "/access-tokens", { name: "laptop" });
    expect(status).toBe(201);
    return body as unknown as z.infer<typeof createdAccessToken>;
  }

  test("is created with another token, has the same rights, and can delete itself", async () => {
    const me = await operator();
    const made = await makeToken(me);
    expect(made).toEqual({
      id: expect.any(String),
      name: "laptop",
      token: expect.stringMatching(/^sk_e2b_[0-9a-f]{40}$/),
      mask: {
        prefix: "sk_e2b_",
        valueLength: 40,
        maskedValuePrefix: made.token.slice(7, 9),
        maskedValueSuffix: made.token.slice(-4),
      },
      createdAt: new Date(NOW).toISOString(),
    });
    const laptop = { ...me, token: made.token };
    await makeKey(laptop);
    expect((await as(laptop, "DELETE", `/access-tokens/${made.id}`)).status).toBe(204);
    expect((await as(laptop, "GET", "/api-keys")).status).toBe(401);
    expect((await as(me, "DELETE", `/access-tokens/${made.id}`)).status).toBe(404);
  });

  test("of another user cannot be deleted, even in the same team", async () => {
    const [me, other] = [await operator(), await stranger()];
    await fixture.store.people.join(other.userId, me.teamId, false);
    const { id, token } = await makeToken(me);
    const refused = await as({ ...other, teamId: me.teamId }, "DELETE", `/access-tokens/${id}`);
    expect(refusal(refused)).toEqual([404, expect.stringContaining(id)]);
    expect(await keysOf({ ...me, token })).toHaveLength(1);
  });

  test("above the user's limit is rejected, also under concurrency", async () => {
    const me = await operator();
    const mask = { maskPrefix: "00", maskSuffix: "0000", valueLength: 40 };
    await fixture.store.transaction(async ({ keys }) => {
      for (let made = 1; made < ACCESS_TOKENS_PER_USER_MAX - 1; made++) {
        const id = fixture.ids.uuid();
        const hash = `hash of ${id}`;
        await keys.addAccessToken({ id, userId: me.userId, name: "filler", hash, ...mask, createdAt: NOW });
      }
    });
    const replies = await Promise.all([1, 2, 3].map(() => as(me, "POST", "/access-tokens", { name: "race" })));
    expect(replies.map(({ status }) => status).toSorted()).toEqual([201, 429, 429]);
    const refused = replies.find(({ status }) => status === 429);
    expect(refused?.headers.has("retry-after")).toBe(false);
    expect(refused?.body.message).toContain(`${ACCESS_TOKENS_PER_USER_MAX}`);
  });
});

test("a user's membership is checked at each request", async () => {
  const [me, other] = [await operator(), await stranger()];
  const posing = { ...other, teamId: me.teamId };
  expect((await as(posing, "GET", "/api-keys")).status).toBe(403);
  await fixture.store.people.join(other.userId, me.teamId, false);
  expect((await as(posing, "GET", "/api-keys")).status).toBe(200);
});
