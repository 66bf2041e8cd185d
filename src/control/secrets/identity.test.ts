/** Workload identity as a service sees it that trusts the server: discovery, keys, claims and rotation. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createLocalJWKSet, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from "jose";
import { ControlFixture } from "../testing/control-fixture.ts";
import { SIGNING_KEYS_MAX } from "./identity-issuer.ts";

const ISSUER = "https://sandboxes.example.com";
const AUDIENCE = "sts.example.com";
const MINUTE = 60_000;

let fixture: ControlFixture;
beforeAll(async () => {
  fixture = await ControlFixture.open();
  fixture.publicUrl = ISSUER;
  fixture.identityMetadata = ["project", "absent"];
  await fixture.restart();
});
afterAll(() => fixture[Symbol.asyncDispose]());

const tokenOf = (name: string) => `\${e2b.identity.tokens.${name}}`;
const iam = {
  tokens: { cloud: { audience: AUDIENCE, tokenType: "JWT-SVID" }, other: { audience: "b", tokenType: "JWT-SVID" } },
};
const rules = {
  "cloud.test": [{ transform: { headers: { Authorization: `Bearer ${tokenOf("cloud")}`, B: tokenOf("other") } } }],
};
const create = () =>
  fixture.create({ timeout: 86_000, iam, network: { rules }, metadata: { project: "p1", more: "m" } });
const open = async (path: string) => {
  const response = await fixture.control.handle(new Request(`http://localhost${path}`));
  return { status: response.status, body: await response.json(), cache: response.headers.get("cache-control") };
};
const published = async () => (await open("/.well-known/jwks.json")).body as JSONWebKeySet;

async function token(id: string): Promise<string> {
  const answer = await fixture.host.requestRule(id, "cloud.test", "cloud.test");
  if ("failure" in answer) throw new Error(answer.failure);
  return answer.headers[0]?.[1].replace("Bearer ", "") ?? "";
}

async function claimsOf(jwt: string, keys?: JSONWebKeySet) {
  const expected = {
    issuer: ISSUER,
    audience: AUDIENCE,
    currentDate: new Date(fixture.clock.now()),
    algorithms: ["RS256"],
  };
  return (await jwtVerify(jwt, createLocalJWKSet(keys ?? (await published())), expected)).payload;
}

describe("a token", () => {
  test("says for five minutes which sandbox it is of, to anyone who reads the published keys", async () => {
    const id = await create();
    const { body, cache } = await open("/.well-known/openid-configuration");
    expect(body).toMatchObject({
      issuer: ISSUER,
      jwks_uri: `${ISSUER}/.well-known/jwks.json`,
      id_token_signing_alg_values_supported: ["RS256"],
    });
    expect(cache).toBe("public, max-age=300");
    const claims = await claimsOf(await token(id));
    const row = await fixture.store.sandboxes.byId(id);
    const { teamId, templateId } = row ?? { teamId: "", templateId: "" };
    const now = Math.floor(fixture.clock.now() / 1000);
    expect(claims).toEqual({
      iss: ISSUER,
      sub: `spiffe://sandboxes.example.com/team/${teamId}/template/${templateId}/sandbox/${id}`,
      aud: AUDIENCE,
      iat: now,
      nbf: now,
      exp: now + 300,
      team_id: teamId,
      template_id: templateId,
      sandbox_id: id,
      metadata: { project: "p1" },
    });
  });

  test("is new each second, and expires", async () => {
    const id = await create();
    const first = await token(id);
    expect(await token(id)).toBe(first);
    await fixture.advance(1_000);
    expect(await token(id)).not.toBe(first);
    await fixture.advance(5 * MINUTE);
    await expect(claimsOf(first)).rejects.toThrow("exp");
    await claimsOf(await token(id));
  });

  test("of a fork is its own, and that of a resumed sandbox stays", async () => {
    const id = await create();
    const before = await claimsOf(await token(id));
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    await fixture.call("POST", `/sandboxes/${id}/resume`, { timeout: 3600 });
    expect((await claimsOf(await token(id))).sub).toBe(before.sub);
    const forked = await fixture.call("POST", `/sandboxes/${id}/fork`, { timeout: 60 });
    const [{ sandbox }] = forked.body as unknown as [{ sandbox: { sandboxID: string } }];
    const { sub, metadata } = await claimsOf(await token(sandbox.sandboxID));
    expect([sub?.endsWith(`/sandbox/${sandbox.sandboxID}`), metadata]).toEqual([true, { project: "p1" }]);
  });
});

describe("a rotation", () => {
  test("publishes the new key first, and the old one until its last token expired", async () => {
    const id = await create();
    const kid = async () => decodeProtectedHeader(await token(id)).kid;
    const kids = async () => (await published()).keys.map((key) => key.kid);
    const old = await kid();
    const { signsAt } = await fixture.control.operator.rotateSigningKey();
    expect(signsAt).toBe(fixture.clock.now() + 5 * MINUTE);
    const [fresh] = await kids();
    expect(await kids()).toEqual([fresh, old]);
    await fixture.advance(5 * MINUTE - 1);
    expect(await kid()).toBe(old);
    const last = await token(id);
    await fixture.advance(1_001);
    expect(await kid()).toBe(fresh);
    await fixture.advance(4 * MINUTE);
    await claimsOf(last);
    expect(await kids()).toEqual([fresh, old]);
    await fixture.advance(7 * MINUTE);
    expect(await kids()).toEqual([fresh]);
    expect(JSON.stringify(await published())).not.toMatch(/"(?:d|p|q|dp|dq|qi)":/);
  });

  test("waits when too many keys are published, and keys survive a restart", async () => {
    const id = await create();
    for (;;) {
      const done = await fixture.control.operator.rotateSigningKey().catch((error: unknown) => String(error));
      if (typeof done === "string") {
        expect(done).toContain(`${SIGNING_KEYS_MAX} signing keys are still published`);
        break;
      }
    }
    const before = await published();
    expect(before.keys).toHaveLength(SIGNING_KEYS_MAX);
    await fixture.restart();
    expect(await published()).toEqual(before);
    await claimsOf(await token(id), before);
  });
});

describe("a create", () => {
  const refusal = async (fields: object) => {
    const { status, body } = await fixture.call("POST", "/v2/sandboxes", { templateID: "base", ...fields });
    return [status, body.message];
  };
  const one = (given: object) => ({ iam: { tokens: { cloud: given } } });

  test("is rejected with malformed tokens", async () => {
    const good = { audience: "a", tokenType: "JWT-SVID" };
    const six = Object.fromEntries(Array.from({ length: 6 }, (_, nth) => [`t${nth}`, good]));
    for (const [fields, problem] of [
      [{ iam: { tokens: [] } }, "iam.tokens must be an object, got an array"],
      [{ iam: { tokens: six } }, "iam.tokens must have at most 5 entries, got 6"],
      [{ iam: { tokens: { "a{": good } } }, "iam.tokens.a{ must have a name that is not empty and holds no {"],
      [{ iam: { tokens: { ["n".repeat(129)]: good } } }, "must have names of at most 128 characters, got one of 129"],
      [one({ tokenType: "JWT-SVID" }), "iam.tokens.cloud.audience must be a string, got nothing"],
      [one({ audience: "", tokenType: "JWT-SVID" }), "iam.tokens.cloud.audience must have at least 1"],
      [one({ audience: "a".repeat(513), tokenType: "JWT-SVID" }), "iam.tokens.cloud.audience must have at most 512"],
      [one({ audience: "a", tokenType: "JWT" }), 'iam.tokens.cloud.tokenType must be one of "JWT-SVID"'],
    ] as const) {
      expect(await refusal(fields)).toEqual([400, expect.stringContaining(problem)]);
    }
  });

  test("and a change are rejected with a rule that names another token", async () => {
    const fields = { network: { rules: { "A.test": [{ transform: { headers: { A: tokenOf("nope") } } }] } } };
    const message = 'rules.a.test refers to the identity token "nope", which iam.tokens of the create does not name';
    expect(await refusal({ iam, ...fields })).toEqual([400, `validation error: network.${message}`]);
    const id = await create();
    const { status, body } = await fixture.call("PUT", `/sandboxes/${id}/network`, fields.network);
    expect([status, body.message]).toEqual([400, `validation error: ${message}`]);
  });

  test("is rejected on a server without a public address, which publishes nothing", async () => {
    await using local = await ControlFixture.open();
    const reply = await local.call("POST", "/sandboxes", { templateID: "base", iam });
    expect([reply.status, reply.body.message]).toEqual([400, expect.stringContaining("SANDLOT_PUBLIC_URL")]);
    const found = await local.control.handle(new Request("http://localhost/.well-known/openid-configuration"));
    expect(found.status).toBe(404);
  });
});
