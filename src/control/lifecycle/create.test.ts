/** Creating a sandbox: options that are honoured or rejected by name, and the response when it cannot be placed. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { aBuild } from "../../store/testing/rows.ts";
import { ControlFixture, NOW } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

describe("create", () => {
  test("v1 without secure: 201, no token, an open runtime, 15 seconds", async () => {
    const { status, body } = await fixture.call("POST", "/sandboxes", { templateID: "base" });
    expect(status).toBe(201);
    expect<unknown>(body).toEqual({
      templateID: expect.stringMatching(/^[a-z0-9]{20}$/),
      sandboxID: fixture.host.running[0],
      clientID: "6532622b",
      envdVersion: expect.stringMatching(/^\d+\.\d+\.\d+$/),
      alias: "base",
      envdAccessToken: null,
      trafficAccessToken: null,
      domain: null,
    });
    expect(fixture.host.requestOf(body.sandboxID)).toMatchObject({ accessTokens: [], egress: "open", envVars: {} });
    expect(await fixture.endOf(body.sandboxID)).toBe(15);
  });

  test("does not wait for the disk: a crash of the machine ends the sandbox anyway", async () => {
    const { transaction } = fixture.store;
    const outlasted: unknown[] = [];
    fixture.store.transaction = (work, durability) => {
      outlasted.push(durability);
      return transaction(work, durability);
    };
    await fixture.create();
    expect(outlasted.length).toBeGreaterThan(0);
    expect(new Set(outlasted)).toEqual(new Set(["server"]));
  });

  test("v1 with secure: a token, and the same one opens the runtime", async () => {
    const { body } = await fixture.call("POST", "/sandboxes", { templateID: "base", secure: true });
    expect(body.envdAccessToken).toMatch(/^[0-9a-f]{64}$/);
    expect<unknown>(fixture.host.requestOf(body.sandboxID)?.accessTokens).toEqual([body.envdAccessToken]);
  });

  test("v2: always secure, 300 seconds", async () => {
    const { status, body } = await fixture.call("POST", "/v2/sandboxes", { templateID: "base", secure: false });
    expect(status).toBe(201);
    expect(body.envdAccessToken).toMatch(/^[0-9a-f]{64}$/);
    expect(await fixture.endOf(body.sandboxID)).toBe(300);
  });

  test("the options reach the host, and GET shows them", async () => {
    const id = await fixture.create({
      timeout: 42,
      secure: true,
      metadata: { who: "ann", "": "odd" },
      envVars: { A: "x=y", B: "" },
      allow_internet_access: false,
      mcp: { server: { deep: [1, null] } },
      unknownField: { ignored: true },
    });
    expect(fixture.host.requestOf(id)).toMatchObject({
      envVars: { A: "x=y", B: "" },
      egress: "closed",
      kind: {
        image: "base",
        cpuCount: 2,
        memoryMB: 1024,
        diskSizeMB: 10_240,
        defaultUser: "user",
        defaultWorkdir: "/home/user",
      },
    });
    const row = await fixture.store.sandboxes.byId(id);
    expect(row?.mcp).toEqual({ server: { deep: [1, null] } });
    const { body } = await fixture.call("GET", `/sandboxes/${id}`);
    expect<unknown>(body).toEqual({
      templateID: row?.templateId,
      sandboxID: id,
      clientID: "6532622b",
      envdVersion: expect.any(String),
      alias: "base",
      startedAt: new Date(NOW).toISOString(),
      endAt: new Date(NOW + 42_000).toISOString(),
      cpuCount: 2,
      memoryMB: 1024,
      diskSizeMB: 10_240,
      state: "running",
      metadata: { who: "ann", "": "odd" },
      volumeMounts: [],
      envdAccessToken: row?.tokens[0],
      allowInternetAccess: false,
      domain: null,
      network: { allowPublicTraffic: true },
      lifecycle: { autoResume: false, onTimeout: "kill" },
    });
  });

  test.each([
    [undefined, null, "open"],
    [null, null, "open"],
    [true, true, "open"],
    [false, false, "closed"],
  ] as const)("allow_internet_access %p is shown as %p", async (request, shown, egress) => {
    const id = await fixture.create({ allow_internet_access: request });
    expect((await fixture.call("GET", `/sandboxes/${id}`)).body.allowInternetAccess).toBe(shown);
    expect(fixture.host.requestOf(id)?.egress).toBe(egress);
  });

  test("allow_internet_access false adds to network, which is shown as it was sent", async () => {
    const network = { allowOut: ["1.1.1.1"], denyOut: ["9.9.9.9"] };
    const id = await fixture.create({ allow_internet_access: false, network });
    const { body } = await fixture.call("GET", `/sandboxes/${id}`);
    expect([body.allowInternetAccess, body.network]).toEqual([false, { allowPublicTraffic: true, ...network }]);
    const egress = { allowRanges: ["1.1.1.1/32"], allowNames: [], denyRanges: ["0.0.0.0/0"], proxy: null };
    expect(fixture.host.requestOf(id)?.egress).toEqual(egress);
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    await fixture.call("POST", `/sandboxes/${id}/resume`);
    expect(fixture.host.requestOf(id)?.egress).toEqual(egress);
    await fixture.call("POST", `/sandboxes/${id}/fork`);
    expect(fixture.host.requestOf(fixture.host.running[1] ?? "")?.egress).toEqual(egress);
  });

  test("v1 with timeout 0: created, and over at once", async () => {
    const id = await fixture.create({ timeout: 0 });
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    await fixture.advance(0);
    expect(fixture.host.destroyed).toEqual([id]);
    expect(fixture.find(id)).toBeUndefined();
  });

  test("the timeout starts when the sandbox is up", async () => {
    fixture.host.beforeCreate = async () => fixture.clock.advance(5_000, async () => undefined);
    expect(await fixture.endOf(await fixture.create({ timeout: 10 }))).toBe(15);
  });

  test("the template counts its uses", async () => {
    await fixture.create();
    await fixture.create();
    expect((await fixture.store.templates.byAlias("", "base")) ?? {}).toMatchObject({
      spawnCount: 2,
      lastSpawnedAt: NOW,
    });
  });

  test("by id, by build, in any case, with the default tag", async () => {
    const template = (await fixture.store.templates.byAlias("", "base"))?.id ?? "";
    const build = (await fixture.store.builds.tagged(template, "default"))?.id ?? "";
    for (const reference of [
      template,
      " BASE ",
      "base:default",
      `base:${build.toUpperCase()}`,
      `${template}:${build}`,
    ]) {
      const { status, body } = await fixture.call("POST", "/sandboxes", { templateID: reference });
      expect([reference, status, body.templateID]).toEqual([reference, 201, template]);
    }
  });

  test("a private template is visible to its team only, and shadows a global name", async () => {
    const theirs = await fixture.anotherTeam("strangers");
    const team = await fixture.store.people.teamBySlug("strangers");
    const base = await fixture.store.templates.byAlias("", "base");
    if (!team || !base) throw new Error("the fixture has no team or template");
    const secret = { ...base, id: "secret00000000000000", teamId: team.id, public: false };
    await fixture.store.templates.add(secret);
    await fixture.store.templates.addAlias("strangers", "base", secret.id);
    await fixture.store.builds.addFinished(aBuild(fixture.ids.uuid(), secret.id));
    const started = async (templateID: string, key: string) =>
      (await fixture.call("POST", "/sandboxes", { templateID }, { "X-API-Key": key })).body.templateID;
    expect(await started("base", theirs)).toBe(secret.id);
    expect(await started("strangers/base", theirs)).toBe(secret.id);
    expect(await started(secret.id, theirs)).toBe(secret.id);
    expect(await started("base", fixture.apiKey)).toBe(base.id);
    expect(await started("strangers/base", fixture.apiKey)).toBeUndefined();
    expect(await started(secret.id, fixture.apiKey)).toBeUndefined();
  });

  test.each([
    ["nothing", 404],
    ["base:v2", 404],
    [`base:${crypto.randomUUID()}`, 404],
    ["default/base", 404],
    ["a/b/c", 400],
    ["", 400],
  ])("template %p gets %p", async (templateID, status) => {
    expect((await fixture.call("POST", "/sandboxes", { templateID })).status).toBe(status);
    expect(fixture.host.running).toEqual([]);
  });

  test.each([
    [{}, "templateID must be a string, got nothing"],
    [{ templateID: 7 }, "templateID must be a string, got 7"],
    [{ templateID: "base", timeout: -1 }, "timeout must be at least 0, got -1"],
    [{ templateID: "base", timeout: 2 ** 31 }, "timeout must be at most 2147483647, got 2147483648"],
    [{ templateID: "base", timeout: 1.5 }, "timeout must be an integer, got 1.5"],
    [{ templateID: "base", timeout: "5" }, "timeout must be an integer, got a string"],
    [{ templateID: "base", timeout: 2 ** 53 }, "timeout must be at most 2147483647, got 9007199254740992"],
    [{ templateID: "base", metadata: { a: 1 } }, "metadata.a must be a string, got 1"],
    [{ templateID: "base", metadata: ["x"] }, "metadata must be an object, got an array"],
    [{ templateID: "base", envVars: { A: null } }, "envVars.A must be a string, got null"],
    [{ templateID: "base", envVars: { "": "x" } }, "envVars must have names that are not empty"],
    [{ templateID: "base", envVars: { "A=B": "x" } }, "envVars must have names that are not empty"],
    [{ templateID: "base", envVars: { "A\u0000": "x" } }, "envVars must have names that are not empty"],
    [{ templateID: "base", envVars: { A: "secret\u0000" } }, "envVars.A must not hold NUL"],
    [{ templateID: "base", secure: "yes" }, "secure must be a boolean, got a string"],
    [{ templateID: "base", mcp: [] }, "mcp must be an object, got an array"],
    [
      { templateID: "base", mcp: { server: "ü".repeat(40_000) } },
      "mcp must have at most 65536 bytes as JSON, got 80013",
    ],
  ])("%j is refused: %s", async (body, message) => {
    const reply = await fixture.call("POST", "/sandboxes", body);
    expect(reply.status).toBe(400);
    expect(reply.body.message).toStartWith("validation error: ");
    expect(reply.body.message).toContain(message);
    expect(reply.body.message).not.toContain("secret");
  });

  test("v2 with timeout 0 is refused", async () => {
    const reply = await fixture.call("POST", "/v2/sandboxes", { templateID: "base", timeout: 0 });
    expect([reply.status, reply.body.message]).toEqual([400, "validation error: timeout must be at least 1, got 0"]);
  });

  test("a full machine and a missing image are 503", async () => {
    await fixture[Symbol.asyncDispose]();
    fixture = await ControlFixture.open(new FakeHost({ capacity: 1 }));
    await fixture.create();
    const full = await fixture.call("POST", "/sandboxes", { templateID: "base" });
    expect([full.status, full.body.error_code]).toEqual([503, "sandbox_capacity_unavailable"]);
    expect(full.body.message).toStartWith("Failed to place sandbox");
    await fixture[Symbol.asyncDispose]();
    fixture = await ControlFixture.open(new FakeHost({ images: [] }));
    const missing = await fixture.call("POST", "/sandboxes", { templateID: "base" });
    expect([missing.status, missing.body.error_code]).toEqual([503, "sandbox_no_compatible_node"]);
  });

  test("a sandbox that cannot be recorded is destroyed, and nothing of it is left", async () => {
    fixture.host.beforeCreate = async () => {
      fixture.store.transaction = async () => {
        throw new Fault(500, "disk full");
      };
    };
    expect((await fixture.call("POST", "/sandboxes", { templateID: "base" })).status).toBe(500);
    expect(fixture.host.running).toEqual([]);
    expect(fixture.host.destroyed).toHaveLength(1);
    expect(fixture.find(fixture.host.destroyed[0] ?? "")).toBeUndefined();
  });

  test("a sandbox that dies before its row is written is not handed out", async () => {
    const { transaction } = fixture.store;
    fixture.store.transaction = async (work) => {
      fixture.host.lose(fixture.host.running[0] ?? "");
      await fixture.control.settled();
      return transaction(work);
    };
    expect((await fixture.call("POST", "/sandboxes", { templateID: "base" })).status).toBe(503);
    expect<unknown>((await fixture.call("GET", "/sandboxes")).body).toEqual([]);
  });
});

describe("a field that is too large", () => {
  const entries = (count: number, value: string) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, value]));

  test.each([
    [{ metadata: { [`${"k".repeat(256)}`]: "" } }, undefined],
    [{ metadata: { "": "€".repeat(65_536 / 3 - 1) } }, undefined],
    [{ metadata: entries(256, "") }, undefined],
    [{ metadata: { [`${"k".repeat(257)}`]: "" } }, "metadata must have keys of at most 256 characters, got one of 257"],
    [{ metadata: { a: "x".repeat(65_536) } }, "metadata must hold at most 65536 bytes of keys and values, got 65537"],
    [{ metadata: { "": "€".repeat(22_000) } }, "metadata must hold at most 65536 bytes of keys and values, got 66000"],
    [{ metadata: entries(257, "") }, "metadata must have at most 256 entries, got 257"],
    [{ envVars: { V: "x".repeat(131_072 - 3) } }, undefined],
    [
      { envVars: { V: "x".repeat(131_072 - 2) } },
      "envVars.V must take at most 131072 bytes as NAME=VALUE with a NUL, got 131073",
    ],
    [{ envVars: entries(11, "x".repeat(100_000)) }, "envVars must take at most 1048576 bytes together, got 1100045"],
  ])("case %#", async (fields, complaint) => {
    for (const path of ["/sandboxes", "/v2/sandboxes"]) {
      const { status, body } = await fixture.call("POST", path, { templateID: "base", ...fields });
      if (complaint === undefined) expect(status).toBe(201);
      else expect([status, body.message]).toEqual([400, `validation error: ${complaint}`]);
    }
  });
});

describe("__proto__", () => {
  const create = (fields: string) => fixture.call("POST", "/sandboxes", `{"templateID":"base","timeout":60,${fields}}`);

  test("is a metadata key like any other: stored, shown, and filtered by", async () => {
    const { status, body } = await create('"metadata":{"__proto__":"x","constructor":"y","toString":"z"}');
    expect(status).toBe(201);
    const other = await fixture.create();
    const expected = JSON.parse('{"__proto__":"x","constructor":"y","toString":"z"}');
    const shown = [
      (await fixture.call("GET", `/sandboxes/${body.sandboxID}`)).body.metadata,
      (await fixture.call("GET", "/sandboxes?metadata=__proto__%3Dx")).body[0]?.metadata,
      (await fixture.call("GET", "/v2/sandboxes?metadata=__proto__%3Dx")).body[0]?.metadata,
    ];
    for (const metadata of shown) expect(Object.entries(metadata ?? {})).toEqual(Object.entries(expected));
    for (const path of ["/sandboxes", "/v2/sandboxes"]) {
      expect((await fixture.call("GET", `${path}?metadata=__proto__%3Dx`)).body).toHaveLength(1);
      expect((await fixture.call("GET", `${path}?metadata=__proto__%3Dy`)).body).toHaveLength(0);
    }
    expect((await fixture.call("GET", `/sandboxes/${other}`)).body.metadata).toEqual({});
  });

  test("is a variable like any other, through a snapshot, too", async () => {
    const { status, body } = await create('"envVars":{"__proto__":"x","A":"b"}');
    expect(status).toBe(201);
    expect(Object.entries(fixture.host.requestOf(body.sandboxID)?.envVars ?? {})).toEqual([
      ["__proto__", "x"],
      ["A", "b"],
    ]);
    const { snapshotID } = (await fixture.call("POST", `/sandboxes/${body.sandboxID}/snapshots`, {})).body;
    const copy = await fixture.create({ templateID: snapshotID, envVars: { B: "c" } });
    expect(Object.entries(fixture.host.requestOf(copy)?.envVars ?? {})).toEqual([
      ["__proto__", "x"],
      ["A", "b"],
      ["B", "c"],
    ]);
  });

  test("elsewhere is an unknown field without effect", async () => {
    const poison = '{"secure":true,"allowPublicTraffic":false,"enabled":true,"polluted":"yes"}';
    const fields = ["network", "autoResume", "mcp"].map((field) => `"${field}":{"__proto__":${poison}}`);
    const { status, body } = await create(`"__proto__":${poison},${fields.join(",")}`);
    expect([status, body.envdAccessToken]).toEqual([201, null]);
    const detail = (await fixture.call("GET", `/sandboxes/${body.sandboxID}`)).body;
    expect(detail.lifecycle.autoResume).toBe(false);
    expect(Reflect.get({}, "polluted")).toBeUndefined();
  });

  test("must have a string as its value in metadata and variables", async () => {
    for (const field of ["metadata", "envVars"]) {
      const { status, body } = await create(`"${field}":{"__proto__":{"polluted":"yes"}}`);
      const message = `validation error: ${field}.__proto__ must be a string, got an object`;
      expect([status, body.message]).toEqual([400, message]);
    }
  });
});
