/** Answers to the host's questions for headers: from which values, what fails, and how much work they cost. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { RuleAnswer } from "../../contract/internal/host.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { RULE_QUESTIONS_WAITING_MAX } from "./rule-answers.ts";
import { USE_HOSTS_PER_SANDBOX_MAX } from "./secret-uses.ts";

let fixture: ControlFixture;
beforeAll(async () => {
  fixture = await ControlFixture.open();
});
afterAll(() => fixture[Symbol.asyncDispose]());

const secret = (name: string) => `\${e2b.secrets.${name}}`;
const rulesWith = (headers: Record<string, string>, name = "api.test") => ({ [name]: [{ transform: { headers } }] });
const set = async (name: string, value: string) => {
  const { status } = await fixture.call("POST", `/secrets/${name}`, { value });
  if (status === 404) await fixture.call("POST", "/secrets", { name, value });
};
const ask = (id: string, host = "api.test", pattern = host) => fixture.host.requestRule(id, pattern, host);
const logOf = async (id: string) => JSON.stringify((await fixture.call("GET", `/v2/sandboxes/${id}/logs`)).body);
const create = (rules: object, more: object = {}) => fixture.create({ timeout: 3600, network: { rules }, ...more });

beforeEach(() => set("token", "planted-one"));

describe("headers of a rule", () => {
  test("have the values of secrets, by name in upper or lower case, and literal text", async () => {
    await set("other", "planted-two");
    const id = await create(
      rulesWith({
        Authorization: `Bearer ${secret("TOKEN")}`,
        B: `${secret("other")}:${secret("token")}`,
        C: "$D {e}",
      }),
    );
    expect(await ask(id)).toEqual({
      headers: [
        ["Authorization", "Bearer planted-one"],
        ["B", "planted-two:planted-one"],
        ["C", "$D {e}"],
      ],
    });
  });

  test("have the newest version from the next request on", async () => {
    const id = await create(rulesWith({ A: secret("token") }));
    for (let version = 0; version < 3; version++) {
      await set("token", `value-${version}`);
      expect(await ask(id)).toEqual({ headers: [["A", `value-${version}`]] });
    }
  });

  test("are those of the pattern that the host names, and none for a rule without headers", async () => {
    const id = await create({
      ...rulesWith({ A: "wide" }, "*.api.test"),
      ...rulesWith({ A: "exact" }, "b.api.test"),
      "c.api.test": [],
    });
    expect(await ask(id, "a.api.test", "*.api.test")).toEqual({ headers: [["A", "wide"]] });
    expect(await ask(id, "b.api.test")).toEqual({ headers: [["A", "exact"]] });
    expect(await ask(id, "c.api.test")).toEqual({ headers: [] });
  });

  test("lose spaces around their values, however many there are", async () => {
    await set("spaces", `${" ".repeat(8_000)}\tplanted${" ".repeat(7_000)}x \t`);
    const id = await create(rulesWith({ A: `${secret("spaces")}${secret("spaces")} ` }));
    const answer = await ask(id);
    const [[, value] = ["", ""]] = "headers" in answer ? answer.headers : [];
    expect([value.startsWith("planted"), value.endsWith("x"), value.length]).toEqual([true, true, 22_019]);
  });

  test("never come from another team's secret", async () => {
    const key = { "X-API-Key": await fixture.anotherTeam("neighbours") };
    await fixture.call("POST", "/secrets", { name: "theirs", value: "planted-theirs" }, key);
    const id = await create(rulesWith({ A: secret("theirs") }));
    expect(await ask(id)).toEqual({
      failure: 'rule for "api.test" cannot be applied: the team has no secret "theirs"',
    });
  });
});

describe("a rule", () => {
  test("is passed to the host by its name, and kept through pause, resume and fork", async () => {
    const id = await create(rulesWith({ A: secret("token") }, "API.test"));
    const egressOf = (sandbox: string) => fixture.host.requestOf(sandbox)?.egress;
    expect(egressOf(id)).toMatchObject({ ruleNames: ["api.test"], denyRanges: [], proxy: null });
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    await fixture.call("POST", `/sandboxes/${id}/resume`, { timeout: 3600 });
    expect(egressOf(id)).toMatchObject({ ruleNames: ["api.test"] });
    expect(await ask(id)).toEqual({ headers: [["A", "planted-one"]] });
    const forked = await fixture.call("POST", `/sandboxes/${id}/fork`, { timeout: 60 });
    const [{ sandbox }] = forked.body as unknown as [{ sandbox: { sandboxID: string } }];
    expect(egressOf(sandbox.sandboxID)).toMatchObject({ ruleNames: ["api.test"] });
    expect(await ask(sandbox.sandboxID)).toEqual({ headers: [["A", "planted-one"]] });
  });

  test("is replaced and removed with the other network rules, and grants no access", async () => {
    const id = await create(rulesWith({ A: "1" }));
    const put = (body: object) => fixture.call("PUT", `/sandboxes/${id}/network`, body);
    expect((await put({ rules: rulesWith({ A: "2" }, "b.test") })).status).toBe(204);
    expect(await ask(id, "b.test")).toEqual({ headers: [["A", "2"]] });
    expect(await ask(id)).toEqual({ failure: 'there is no rule for "api.test" any more' });
    await put({});
    expect(fixture.host.requestOf(id)?.egress).toBe("open");
    await put({ rules: rulesWith({ A: "2" }), denyOut: ["0.0.0.0/0"] });
    expect(fixture.host.requestOf(id)?.egress).toBe("closed");
  });

  test("applies from the moment that the host knows it, before the change is recorded", async () => {
    const id = await create(rulesWith({ A: "old" }));
    let answer: Promise<RuleAnswer> | undefined;
    fixture.host.beforeEgressHolds = async () => {
      answer = ask(id, "new.test");
    };
    const put = fixture.call("PUT", `/sandboxes/${id}/network`, { rules: rulesWith({ A: "new" }, "new.test") });
    expect((await put).status).toBe(204);
    fixture.host.beforeEgressHolds = async () => undefined;
    await fixture.advance(500);
    expect(await answer).toEqual({ headers: [["A", "new"]] });
  });

  test("of a sandbox that is not recorded yet is answered once it is", async () => {
    const unknown = ask("i0unknown");
    const id = await create(rulesWith({ A: "1" }));
    expect(await ask(id)).toEqual({ headers: [["A", "1"]] });
    for (let waited = 0; waited < 60; waited++) await fixture.advance(100);
    expect(await unknown).toEqual({ failure: 'there is no rule for "api.test" any more' });
  });
});

describe("a request fails, and the log of the sandbox says why without a value", () => {
  test("for a secret that does not exist, as often as a minute allows", async () => {
    const id = await create(rulesWith({ A: secret("token"), B: secret("missing") }));
    const failure = 'rule for "api.test" cannot be applied: the team has no secret "missing"';
    for (let nth = 0; nth < 30; nth++) expect(await ask(id)).toEqual({ failure });
    const log = await logOf(id);
    expect(log.split("cannot be applied")).toHaveLength(11);
    expect(log).not.toContain("planted-one");
    await set("missing", "here");
    expect(await ask(id)).toMatchObject({
      headers: [
        ["A", "planted-one"],
        ["B", "here"],
      ],
    });
  });

  test.each([
    ["a line break", "planted\r\nX-More: 1"],
    ["a line break at its end", "planted\n"],
    ["NUL", "planted\0"],
    ["a letter beyond Latin-1", "planted€"],
  ])("for a value with %s", async (_, value) => {
    await set("broken", value);
    const id = await create(rulesWith({ A: secret("broken") }));
    expect(await ask(id)).toEqual({
      failure: expect.stringMatching(
        /^rule for "api.test" cannot be applied: the value of its header "A" holds a line break/,
      ),
    } as unknown as RuleAnswer);
    expect(await logOf(id)).not.toContain("planted");
  });

  test("for more bytes than headers may have", async () => {
    await set("large", "x".repeat(16_384));
    const id = await create(rulesWith({ A: secret("large").repeat(5) }));
    expect(await ask(id)).toEqual({
      failure: expect.stringContaining("more than 65536 bytes"),
    } as unknown as RuleAnswer);
  });

  test("while the store is away", async () => {
    const id = await create(rulesWith({ A: secret("token") }));
    const { valuesOf } = fixture.store.secrets;
    const secrets = fixture.store.secrets as { valuesOf: typeof valuesOf };
    secrets.valuesOf = () => Promise.reject(new Error("away"));
    expect(await ask(id)).toEqual({ failure: 'rule for "api.test" could not be read; try again' });
    secrets.valuesOf = valuesOf;
    expect(await ask(id)).toEqual({ headers: [["A", "planted-one"]] });
  });
});

test("thousands of requests cost one read at a time, and beyond a bound they fail", async () => {
  const id = await create(rulesWith({ A: secret("token") }));
  const { byId } = fixture.store.sandboxes;
  const sandboxes = fixture.store.sandboxes as { byId: typeof byId };
  let [reads, now, most] = [0, 0, 0];
  sandboxes.byId = async (...given) => {
    reads += 1;
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setImmediate(resolve));
    now -= 1;
    return byId(...given);
  };
  const answers = await Promise.all(Array.from({ length: 5_000 }, () => ask(id)));
  sandboxes.byId = byId;
  expect(most).toBe(1);
  expect(reads).toBeLessThan(20);
  const failed = answers.filter((answer) => "failure" in answer);
  expect(failed.length).toBeGreaterThan(5_000 - 3 * RULE_QUESTIONS_WAITING_MAX);
  expect(JSON.stringify(failed[0])).toContain("too many requests");
});

describe("the record of use", () => {
  const usesOf = async (name: string) => {
    const { status, body, headers } = await fixture.call("GET", `/secrets/${name}/uses`);
    expect(status).toBe(200);
    return { uses: body as unknown as Record<string, unknown>[], next: headers.get("x-next-token") };
  };

  test("names sandbox, version, host, number and times of requests that got a value", async () => {
    await set("used", "1");
    const id = await create(rulesWith({ A: secret("used") }));
    const firstAt = new Date(fixture.clock.now()).toISOString();
    await ask(id);
    await fixture.advance(1_000);
    await ask(id);
    await set("used", "2");
    await ask(id);
    const lastAt = new Date(fixture.clock.now()).toISOString();
    expect((await usesOf("used")).uses).toEqual([
      { sandboxID: id, version: 2, host: "api.test", count: 1, firstAt: lastAt, lastAt },
      { sandboxID: id, version: 1, host: "api.test", count: 2, firstAt, lastAt },
    ]);
    await ask(id);
    expect((await usesOf("used")).uses[0]).toMatchObject({ version: 2, count: 2 });
    await fixture.call("DELETE", "/secrets/used");
    expect((await fixture.call("GET", "/secrets/used/uses")).status).toBe(404);
  });

  test("counts hosts of one sandbox beyond a bound under the pattern of the rule", async () => {
    await set("wide", "1");
    const id = await create(rulesWith({ A: secret("wide") }, "*.wide.test"));
    for (let nth = 0; nth < USE_HOSTS_PER_SANDBOX_MAX + 15; nth++) await ask(id, `${nth}.wide.test`, "*.wide.test");
    const { uses } = await usesOf("wide");
    expect(uses).toHaveLength(USE_HOSTS_PER_SANDBOX_MAX + 1);
    expect(uses.find(({ host }) => host === "*.wide.test")?.count).toBe(15);
  });

  test("is paged", async () => {
    const first = await fixture.call("GET", "/secrets/wide/uses?limit=20");
    expect(first.body).toHaveLength(20);
    const next = await fixture.call(
      "GET",
      `/secrets/wide/uses?limit=20&nextToken=${first.headers.get("x-next-token")}`,
    );
    expect([next.body.length, next.headers.get("x-next-token")]).toEqual([1, null]);
  });

  test("survives a failure of the store", async () => {
    await set("doubtful", "1");
    const id = await create(rulesWith({ A: secret("doubtful") }));
    const { transaction } = fixture.store;
    const store = fixture.store as { transaction: typeof transaction };
    store.transaction = () => Promise.reject(new Error("away"));
    await ask(id);
    expect((await fixture.call("GET", "/secrets/doubtful/uses")).status).toBe(500);
    await ask(id);
    store.transaction = transaction;
    expect((await usesOf("doubtful")).uses).toMatchObject([{ count: 2 }]);
  });
});
