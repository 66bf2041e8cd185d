/** Fields with values that mean "no", and a header where it has no meaning. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ControlFixture } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
beforeAll(async () => {
  fixture = await ControlFixture.open();
});
afterAll(() => fixture[Symbol.asyncDispose]());

const harmless: Record<string, unknown>[] = [
  { autoPause: false, autoPauseMemory: true, autoResume: { enabled: false }, network: {}, volumeMounts: [], iam: {} },
  { autoPause: null, autoPauseMemory: null, autoResume: null, network: null, volumeMounts: null, iam: null },
  { autoResume: {}, iam: { tokens: {} } },
  { network: { allowPublicTraffic: true, allowOut: [], denyOut: [], maskRequestHost: "", rules: {}, httpsPorts: [] } },
  {
    network: {
      allowPublicTraffic: null,
      allowOut: null,
      denyOut: null,
      egressProxy: null,
      rules: null,
      somethingNew: 1,
    },
  },
  { metadata: {}, envVars: {}, mcp: null, allow_internet_access: null, secure: null, timeout: null },
];

for (const path of ["/sandboxes", "/v2/sandboxes"]) {
  describe(`POST ${path}`, () => {
    test.each(harmless)("accepts %j", async (fields) => {
      expect((await fixture.call("POST", path, { templateID: "base", ...fields })).status).toBe(201);
    });
  });
}

test("Idempotency-Key is rejected where a repetition would make another copy, and ignored where it would not", async () => {
  const key = { "Idempotency-Key": "abc" };
  const id = await fixture.create();
  for (const copy of ["fork", "snapshots"]) {
    const { status, body } = await fixture.call("POST", `/sandboxes/${id}/${copy}`, {}, key);
    expect([copy, status, body.message.includes("Idempotency-Key")]).toEqual([copy, 400, true]);
  }
  expect((await fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 60 }, key)).status).toBe(204);
});
