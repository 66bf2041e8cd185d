/** The secrets API: names, bounds, conflicts, versions, pages, limits of teams, and who may see what. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ControlFixture, type Reply } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
beforeAll(async () => {
  fixture = await ControlFixture.open();
});
afterAll(() => fixture[Symbol.asyncDispose]());

const VALUE = "planted-4f1d9c77aa";

interface SecretReply extends Omit<Reply, "body"> {
  body: Reply["body"] & {
    secretID: string;
    name: string;
    currentVersion: number;
    metadata: Record<string, string>;
    createdAt: string;
    updatedAt: string;
  };
}
const call = async (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
  (await fixture.call(method, path, body, headers)) as SecretReply;
const create = (name: string, more: Record<string, unknown> = {}, headers?: Record<string, string>) =>
  call("POST", "/secrets", { name, value: VALUE, ...more }, headers);

describe("a secret", () => {
  test("has a lower-case name, an id and a version, and no response has its value", async () => {
    const made = await create("Open-AI_key", { metadata: { owner: "ann" } });
    expect(made.status).toBe(201);
    const { secretID } = made.body;
    expect(made.body).toMatchObject({ name: "open-ai_key", currentVersion: 1, metadata: { owner: "ann" } });
    expect(secretID).toMatch(/^sec_[a-z0-9]{20}$/);
    for (const name of [secretID, "open-ai_key", "OPEN-AI_KEY"]) {
      expect((await call("GET", `/secrets/${name}`)).body).toEqual(made.body);
    }
    expect(JSON.stringify([made.body, (await call("GET", "/secrets")).body])).not.toContain(VALUE);
  });

  test("gets a new version, keeps its metadata unless new ones are sent, and is gone when deleted", async () => {
    const { body: made } = await create("rotated", { metadata: { a: "1" } });
    await fixture.advance(1_000);
    const { body: second } = await call("POST", "/secrets/Rotated", { value: "two" });
    expect(second).toMatchObject({ secretID: made.secretID, currentVersion: 2, metadata: { a: "1" } });
    expect(Date.parse(second.updatedAt)).toBe(Date.parse(made.updatedAt) + 1_000);
    const third = await call("POST", `/secrets/${made.secretID}`, { value: "three", metadata: {} });
    expect([third.status, third.body.currentVersion, third.body.metadata]).toEqual([200, 3, {}]);
    expect((await call("DELETE", "/secrets/ROTATED")).status).toBe(204);
    for (const [method, body] of [["GET"], ["POST", { value: "x" }], ["DELETE"]] as const) {
      const { status, body: error } = await call(method, "/secrets/rotated", body);
      expect([method, status, error.message]).toEqual([method, 404, 'this team has no secret "rotated"']);
    }
    expect((await create("rotated")).body.currentVersion).toBe(1);
  });

  test("conflicts with another one of the same name, in upper or lower case", async () => {
    expect((await create("taken")).status).toBe(201);
    const { status, body } = await create("TAKEN");
    expect([status, body.message]).toEqual([409, expect.stringContaining('has a secret "taken" already')]);
  });

  test("is of one team", async () => {
    const { body } = await create("mine");
    const other = { "X-API-Key": await fixture.anotherTeam("another") };
    for (const name of ["mine", body.secretID]) {
      expect((await call("GET", `/secrets/${name}`, undefined, other)).status).toBe(404);
    }
    expect((await create("mine", {}, other)).status).toBe(201);
    expect((await call("GET", "/secrets", undefined, other)).body).toHaveLength(1);
  });

  test.each<[string, Record<string, unknown>, string]>([
    ["no name", { name: undefined }, "name must be a string"],
    ["an empty name", { name: "" }, "name must have at least 1 character"],
    ["a long name", { name: "n".repeat(129) }, "name must have at most 128 characters, got 129"],
    ["a name with a dot", { name: "a.b" }, "name must consist of a-z, A-Z, 0-9, _ and -"],
    ["a name like an id", { name: "SEC_a" }, "name must not begin with sec_"],
    ["no value", { value: undefined }, "value must be a string, got nothing"],
    ["an empty value", { value: "" }, "value must have at least 1 character"],
    ["a long value", { value: "é".repeat(8193) }, "value must have at most 16384 bytes, got 16386"],
    [
      "much metadata",
      { metadata: Object.fromEntries(Array.from({ length: 33 }, (_, n) => [n, ""])) },
      "at most 32 entries",
    ],
    ["a long key of metadata", { metadata: { ["k".repeat(129)]: "" } }, "keys of at most 128 bytes, got one of 129"],
    ["long metadata", { metadata: { k: "é".repeat(513) } }, "metadata.k must have at most 1024 bytes, got 1026"],
    [
      "metadata of many bytes",
      { metadata: Object.fromEntries(Array.from({ length: 8 }, (_, n) => [n, "x".repeat(1024)])) },
      "at most 8192 bytes of keys and values, got 8200",
    ],
    ["metadata with numbers", { metadata: { k: 1 } }, "metadata.k must be a string, got 1"],
  ])("with %s is rejected", async (_, fields, problem) => {
    const { status, body } = await create("fine", fields);
    expect(status).toBe(400);
    expect(body.message).toContain(problem);
    expect(body.message).not.toContain(VALUE);
  });

  test("may have a value of exactly the bound", async () => {
    expect((await create("long-value", { value: "x".repeat(16_384) })).status).toBe(201);
  });
});

test("no response about secrets may be cached, not even an error", async () => {
  const replies = [
    await create("cached"),
    await call("GET", "/secrets"),
    await call("GET", "/secrets/cached"),
    await call("GET", "/secrets/cached/uses"),
    await call("POST", "/secrets/cached", { value: "x" }),
    await create("cached"),
    await call("GET", "/secrets/none"),
    await call("GET", "/secrets?limit=0"),
    await call("GET", "/secrets", undefined, { "X-API-Key": "wrong" }),
    await call("DELETE", "/secrets/cached"),
  ];
  expect(replies.map(({ status, headers }) => [status, headers.get("cache-control")])).toEqual(
    [201, 200, 200, 200, 200, 409, 404, 400, 401, 204].map((status) => [status, "no-store"]),
  );
  expect((await fixture.call("GET", "/sandboxes")).headers.get("cache-control")).toBeNull();
});

test("lists are paged, newest first, also among equal times", async () => {
  const key = { "X-API-Key": await fixture.anotherTeam("paging") };
  for (const name of ["a", "b", "c"]) await create(name, {}, key);
  await fixture.advance(1_000);
  await create("d", {}, key);
  const names: string[] = [];
  let path = "/secrets?limit=1";
  for (;;) {
    const { body, headers } = await call("GET", path, undefined, key);
    names.push(...(body as unknown as { name: string }[]).map(({ name }) => name));
    const next = headers.get("x-next-token");
    if (next === null) break;
    path = `/secrets?limit=1&nextToken=${next}`;
  }
  expect(names[0]).toBe("d");
  expect(names.toSorted()).toEqual(["a", "b", "c", "d"]);
  const wrong = await call("GET", "/secrets?nextToken=abc", undefined, key);
  expect([wrong.status, wrong.body.message]).toEqual([400, expect.stringContaining("is not a token of this list")]);
});

test("a team has at most as many secrets and versions as its limits say", async () => {
  const key = { "X-API-Key": await fixture.anotherTeam("limited") };
  const team = await fixture.store.people.teamBySlug("limited");
  await fixture.store.people.setLimits(team?.id ?? "", { secrets: 2, secretVersions: 3 });
  expect([(await create("one", {}, key)).status, (await create("two", {}, key)).status]).toEqual([201, 201]);
  const { status, body } = await create("three", {}, key);
  expect([status, (body as { error_code?: string }).error_code]).toEqual([409, "secret_limit_reached"]);
  for (let version = 2; version <= 5; version++) {
    expect((await call("POST", "/secrets/one", { value: `${version}` }, key)).body.currentVersion).toBe(version);
  }
  const [value] = await fixture.store.secrets.valuesOf(team?.id ?? "", ["one"]);
  expect(value?.version).toBe(5);
  const kept = await fixture.store.secrets.sealedOtherwise("", 100);
  expect(kept.filter(({ secretId }) => secretId === value?.secretId).map(({ version }) => version)).toEqual([3, 4, 5]);
  await call("DELETE", "/secrets/two", undefined, key);
  expect((await create("three", {}, key)).status).toBe(201);
});

test("concurrent updates each get a version of their own", async () => {
  await create("raced");
  const replies = await Promise.all(
    Array.from({ length: 8 }, (_, nth) => call("POST", "/secrets/raced", { value: `${nth}` })),
  );
  expect(replies.map(({ body }) => body.currentVersion).toSorted()).toEqual([2, 3, 4, 5, 6, 7, 8, 9]);
});

test("the audit log has who changed which secret, and no value", async () => {
  const { body } = await create("audited");
  await call("POST", "/secrets/audited", { value: VALUE });
  await fixture.passBy(2_000);
  const entries = await fixture.store.auditLog.list({}, undefined, 100);
  const objects = entries.map(({ action, object }) => `${action}: ${object}`);
  expect(objects).toContain(`POST /secrets: ${body.secretID}`);
  expect(objects).toContain(`POST /secrets/{secretID}: audited ${body.secretID}`);
  expect(JSON.stringify(entries)).not.toContain(VALUE);
});
