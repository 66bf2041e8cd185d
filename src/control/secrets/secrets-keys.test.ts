/** The key that encrypts secrets: where values appear, swapped rows, a missing or wrong key, and rotation. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ControlFixture } from "../testing/control-fixture.ts";

const VALUE = "planted-8c1e5b70f3d2";
const RULES = { "api.test": [{ transform: { headers: { A: `\${e2b.secrets.key}` } } }] };

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

const set = async (name: string, value: string) => (await fixture.call("POST", "/secrets", { name, value })).status;
const sandbox = () => fixture.create({ timeout: 3600, network: { rules: RULES } });
const ask = (id: string) => fixture.host.requestRule(id, "api.test", "api.test");
const answered = { headers: [["A", VALUE]] } as never;
const sealed = async () => await fixture.store.secrets.sealedOtherwise("", 1_000);

test("a value is in clear text nowhere in the database, the log or the events, also after its use", async () => {
  expect(await set("key", VALUE)).toBe(201);
  const id = await sandbox();
  expect(await ask(id)).toEqual(answered);
  await fixture.call("POST", "/secrets/key", { value: `${VALUE}-2` });
  await set("wrong name", VALUE);
  await fixture.call("POST", "/secrets/key", `{"value": "${VALUE}`);
  await fixture.call("DELETE", "/secrets/key");
  await ask(id);
  await fixture.passBy(10_000);
  const texts = [JSON.stringify((await fixture.call("GET", `/v2/sandboxes/${id}/logs`)).body)];
  texts.push(JSON.stringify((await fixture.call("GET", `/sandboxes/${id}`)).body));
  await fixture.restart();
  texts.push(fixture.logLines.join("\n"), JSON.stringify(fixture.events), JSON.stringify(fixture.posted));
  for (const file of readdirSync(fixture.folder)) texts.push(readFileSync(join(fixture.folder, file), "latin1"));
  expect(texts.filter((text) => text.includes(VALUE))).toEqual([]);
  expect(texts.some((text) => text.includes("e2b.secrets.key"))).toBe(true);
});

test("rows that were swapped, moved or changed cannot be opened", async () => {
  await set("key", VALUE);
  await set("other", "planted-other");
  const id = await sandbox();
  const [one, two] = await sealed();
  if (one === undefined || two === undefined) throw new Error("two values are stored");
  await fixture.store.secrets.reseal(one, two);
  await fixture.store.secrets.reseal(two, one);
  expect(await ask(id)).toEqual({ failure: expect.stringContaining("a stored secret is damaged") } as never);
  await fixture.store.secrets.reseal(one, one);
  await fixture.store.secrets.reseal(two, two);
  expect(await ask(id)).toEqual(answered);
  await fixture.store.secrets.reseal(one, { ...one, sealed: one.sealed.replace(/.{4}$/, "AAAA") });
  await fixture.store.secrets.reseal(two, { ...two, sealed: "" });
  expect(await ask(id)).toEqual({ failure: expect.stringContaining("a stored secret is damaged") } as never);
});

describe("without the key, or with another one,", () => {
  const OTHER = [new Uint8Array(32).fill(7)];

  test.each([
    ["missing", undefined, "there is no key at the file of the test"],
    ["other", OTHER, "the file of the test holds another key than the one that encrypted the stored secrets"],
  ])("%s: secrets are switched off, and nothing else", async (_, keys, problem) => {
    await set("key", VALUE);
    const id = await sandbox();
    const right = fixture.secretsKey.keys;
    fixture.secretsKey.keys = keys as Uint8Array[] | undefined;
    await fixture.restart();
    expect(fixture.logLines.join("\n")).toContain(problem);
    const refused = await fixture.call("POST", "/secrets/key", { value: "x" });
    expect([refused.status, refused.body.message]).toEqual([403, expect.stringContaining("switched off")]);
    expect(refused.body.message).not.toContain("the file of the test");
    expect(await set("more", "x")).toBe(403);
    expect(await ask(id)).toEqual({ failure: expect.stringContaining("secrets are switched off") } as never);
    expect((await fixture.call("GET", "/secrets/key")).status).toBe(200);
    expect((await fixture.call("GET", "/secrets")).body).toHaveLength(1);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(200);
    await fixture.create();
    await expect(fixture.control.operator.rotateSecretsKey()).rejects.toThrow(problem);
    fixture.secretsKey.keys = right;
    expect(await ask(id)).toEqual(answered);
    expect(await set("more", "x")).toBe(201);
  });

  test("a server whose secrets are all deleted starts with a new key, and logs that signing keys went", async () => {
    await set("key", VALUE);
    await fixture.control.operator.rotateSigningKey();
    fixture.secretsKey.keys = undefined;
    await fixture.restart();
    expect(fixture.secretsKey.keys).toBeUndefined();
    await fixture.call("DELETE", "/secrets/key");
    const removal = "signing keys of another secrets key were removed";
    expect(fixture.logLines.join("\n")).not.toContain(removal);
    await fixture.restart();
    expect(fixture.logLines.join("\n")).toContain(removal);
    expect(await set("key", VALUE)).toBe(201);
    expect(await ask(await sandbox())).toEqual(answered);
  });

  test("a server never makes a key where the operator's should be", async () => {
    await using other = await ControlFixture.open();
    other.secretsKey.isOwn = false;
    other.secretsKey.keys = undefined;
    await other.restart();
    expect(other.secretsKey.keys).toBeUndefined();
    other.secretsKey.keys = OTHER;
    await other.restart();
    const { status } = await other.call("POST", "/secrets", { name: "a", value: "b" });
    expect(status).toBe(201);
  });
});

describe("a rotation", () => {
  test("encrypts everything again while values are read and written, and removes the old key", async () => {
    await set("key", VALUE);
    for (let nth = 0; nth < 250; nth++) await set(`s-${nth}`, `v-${nth}`);
    const id = await sandbox();
    const [old] = fixture.secretsKey.keys ?? [];
    let done = false;
    const rotation = fixture.control.operator.rotateSecretsKey().finally(() => {
      done = true;
    });
    let during = 0;
    while (!done) {
      expect(await ask(id)).toEqual(answered);
      expect([201, 503]).toContain(await set(`during-${during++}`, "x"));
    }
    expect((await rotation).values).toBeGreaterThanOrEqual(251);
    expect(fixture.secretsKey.keys).toHaveLength(1);
    expect(fixture.secretsKey.keys?.[0]).not.toEqual(old as Uint8Array);
    expect(new Set((await sealed()).map(({ keyId }) => keyId)).size).toBe(1);
    expect(await ask(id)).toEqual(answered);
    await fixture.restart();
    expect(await ask(id)).toEqual(answered);
  });

  test.each([
    ["writing the new key", "file", 1],
    ["naming the new key", "state", 1],
    ["encrypting the values", "values", 2],
    ["removing the old key", "file", 2],
  ] as const)("that fails at %s leaves every value readable, and the next one finishes it", async (_, where, nth) => {
    await set("key", VALUE);
    for (let at = 0; at < 150; at++) await set(`s-${at}`, "v");
    const id = await sandbox();
    let calls = 0;
    const failing = () => {
      if (++calls === nth) throw new Error("the disk is full");
    };
    const { serverState, transaction } = {
      serverState: fixture.store.serverState.set,
      transaction: fixture.store.transaction,
    };
    const store = fixture.store as { transaction: typeof transaction };
    const state = fixture.store.serverState as { set: typeof serverState };
    if (where === "file") fixture.secretsKey.beforeWrite = failing;
    if (where === "state") state.set = (...given) => Promise.try(failing).then(() => serverState(...given));
    if (where === "values") {
      store.transaction = (...given) => Promise.try(failing).then(() => transaction(...given));
    }
    const first = await fixture.control.operator.rotateSecretsKey().catch((error: unknown) => String(error));
    // A key that cannot be removed from the file is left to the operator.
    if (typeof first !== "string") expect(first.leftover).toBeDefined();
    fixture.secretsKey.beforeWrite = () => undefined;
    store.transaction = transaction;
    state.set = serverState;
    expect(await ask(id)).toEqual(answered);
    await fixture.restart();
    expect(await ask(id)).toEqual(answered);
    expect(await set("meanwhile", "x")).toBe(201);
    await fixture.control.operator.rotateSecretsKey();
    expect(fixture.secretsKey.keys).toHaveLength(1);
    expect(new Set((await sealed()).map(({ keyId }) => keyId)).size).toBe(1);
    expect(await ask(id)).toEqual(answered);
  });

  test("stops at a value that cannot be opened, and names it", async () => {
    await set("key", VALUE);
    const [value] = await sealed();
    if (value === undefined) throw new Error("a value is stored");
    await fixture.store.secrets.reseal(value, { ...value, sealed: "AAAA" });
    await expect(fixture.control.operator.rotateSecretsKey()).rejects.toThrow(value.secretId);
    await fixture.call("DELETE", "/secrets/key");
    expect((await fixture.control.operator.rotateSecretsKey()).values).toBe(0);
    expect(fixture.secretsKey.keys).toHaveLength(1);
  });
});
