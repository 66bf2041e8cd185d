/** A build from request to result: the calls to the host, and what clients see. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { BuildCalls, type Requested } from "../testing/build-calls.ts";
import { baseTemplate, ControlFixture, NOW } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
let calls: BuildCalls;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  calls = new BuildCalls(fixture);
});
afterEach(() => fixture[Symbol.asyncDispose]());

describe("a requested build", () => {
  test("waits for its start, under its tags and names", async () => {
    const reply = await fixture.call("POST", "/v3/templates", {
      name: "web:v1",
      tags: ["v2", "V1"],
      cpuCount: 4,
      memoryMB: 512,
    });
    expect([reply.status, reply.body]).toMatchObject([
      202,
      { names: ["default/web"], aliases: ["web"], tags: ["v1", "v2"], public: false },
    ]);
    const requested = reply.body as never;
    expect(await calls.status(requested)).toMatchObject({ status: "waiting", logs: [], logEntries: [] });
  });

  test("of a known name belongs to the same template", async () => {
    const [first, second] = [await calls.request("web"), await calls.request("default/web:v2")];
    expect(second.templateID).toBe(first.templateID);
    expect(second.buildID).not.toBe(first.buildID);
    expect((await calls.status(first)).status).toBe("waiting");
  });

  test("ends an earlier unstarted build of the same tag", async () => {
    const first = await calls.request("web", { tags: ["a", "b"] });
    await calls.request("web", { tags: ["b"] });
    expect(await calls.status(first)).toMatchObject({
      status: "error",
      reason: { message: expect.stringMatching(/^superseded/) },
    });
    const reply = await calls.start(first);
    expect([reply.status, reply.body.message]).toEqual([400, expect.stringContaining("is error (superseded")]);
  });

  test.each([
    [{}, 400, "has no name"],
    [{ name: "" }, 400, "has no name"],
    [{ name: "other/web" }, 400, 'namespace "other" is not this team'],
    [{ name: "we b" }, 400, "invalid template reference"],
    [{ name: "web", tags: ["a b"] }, 400, "invalid tag"],
    [{ name: "web", tags: ["5a4d1075-ba5e-4000-8000-000000000001"] }, 400, "form of a build id"],
    [{ name: "web", cpuCount: 0 }, 400, "cpuCount must be at least 1"],
    [{ name: "web", memoryMB: 127 }, 400, "memoryMB must be at least 128"],
    [{ name: "web", minFreeDiskMb: 10_241 }, 400, "minFreeDiskMb must be at most 10240"],
    [{ name: "web", teamID: "other" }, 400, "teamID is not the team of the API key"],
    [{ name: baseTemplate.id }, 400, "form of a template id"],
  ])("%j is refused with %i", async (body, status, message) => {
    const reply = await fixture.call("POST", "/v3/templates", body);
    expect([reply.status, reply.body.message]).toEqual([status, expect.stringContaining(message)]);
  });

  test("is in the server's log at its start and end, with its duration and failure", async () => {
    const held = calls.hold();
    const [good, bad, cancelled] = [await calls.begin("good"), await calls.begin("bad"), await calls.begin("gone")];
    for (const build of [good, bad]) await held.begun(build);
    await fixture.advance(5_000);
    held.end(good);
    held.end(bad, { isReady: false, step: "2", message: "make ended with exit code 2" });
    for (const build of [good, bad]) await calls.ended(build);
    await held.begun(cancelled);
    await fixture.call("DELETE", "/templates/gone");
    await fixture.until(() => logged().length === 6);
    const facts = ({ buildID: build, templateID: template }: Requested) => ({ build, template, team: "default" });
    const failed = { event: "template build failed", level: "info" };
    expect(logged()).toEqual([
      ...[good, bad, cancelled].map((build) =>
        expect.objectContaining({ event: "template build started", ...facts(build) }),
      ),
      expect.objectContaining({ event: "template build finished", level: "info", ms: 5_000, ...facts(good) }),
      expect.objectContaining({
        ...failed,
        ms: 5_000,
        step: "2",
        reason: "make ended with exit code 2",
        ...facts(bad),
      }),
      expect.objectContaining({ ...failed, reason: expect.stringContaining("deleted"), ...facts(cancelled) }),
    ]);
  });

  const logged = () =>
    fixture.logLines
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ event }) => String(event).startsWith("template build"));

  test("is refused for a blocked team, and so is its start", async () => {
    const requested = await calls.request("web");
    await fixture.store.people.setLimits(fixture.firstRun.teamId, { blocked: true });
    expect((await fixture.call("POST", "/v3/templates", { name: "web" })).status).toBe(403);
    expect((await calls.start(requested)).status).toBe(403);
  });

  test("of API v2 returns the whole template", async () => {
    const reply = await fixture.call("POST", "/v2/templates", { alias: "web", memoryMB: 256 });
    expect([reply.status, reply.body]).toMatchObject([
      202,
      {
        aliases: ["web"],
        names: ["default/web"],
        cpuCount: 2,
        memoryMB: 256,
        diskSizeMB: 10_240,
        buildCount: 1,
        spawnCount: 0,
        lastSpawnedAt: null,
        buildStatus: "uploaded",
        createdBy: { id: fixture.firstRun.userId },
        createdAt: new Date(NOW).toISOString(),
      },
    ]);
    const requested = reply.body as never;
    expect((await calls.status(requested)).status).toBe("waiting");
    expect((await calls.start(requested)).status).toBe(202);
    expect((await calls.ended(requested)).status).toBe("ready");
  });
});

describe("a started build", () => {
  test("runs on the host as requested, and sandboxes are created from it", async () => {
    const held = calls.hold();
    const requested = await calls.request("web", { cpuCount: 4, memoryMB: 512, tags: ["v1"] });
    const started = await calls.start(requested, {
      steps: [{ type: "RUN", args: ["make"], force: true, extra: 1 }],
      startCmd: "serve",
      readyCmd: "curl localhost",
      force: true,
    });
    expect([started.status, started.headers.get("content-length")]).toEqual([202, "0"]);
    expect(started.body).toBeUndefined();
    await held.begun(requested);
    expect(await calls.status(requested)).toMatchObject({ status: "building", logEntries: [] });
    expect((await calls.start(requested)).body.message).toContain("is building");
    expect(held.requests).toEqual([
      {
        id: requested.buildID,
        templateId: requested.templateID,
        owner: fixture.firstRun.teamId,
        from: {
          kind: "template",
          from: expect.objectContaining({ image: "base", defaultUser: "user" }),
          checkpoint: null,
          envVars: {},
        },
        steps: [{ type: "run", command: "make", user: null, force: true }],
        start: { command: "serve", ready: "curl localhost" },
        force: true,
        cpuCount: 4,
        memoryMB: 512,
        diskSizeMB: 10_240,
      },
    ]);
    expect((await fixture.call("POST", "/sandboxes", { templateID: "web:v1" })).status).toBe(404);
    held.end(requested, {
      isReady: true,
      image: "made",
      defaultUser: "app",
      defaultWorkdir: "/app",
      envVars: { A: "1" },
      checkpoint: "started",
    });
    expect(await calls.ended(requested)).toMatchObject({ status: "ready" });
    const id = await fixture.create({ templateID: "web:v1" });
    expect(fixture.host.requestOf(id)).toMatchObject({
      kind: { image: "made", cpuCount: 4, memoryMB: 512, defaultUser: "app", defaultWorkdir: "/app" },
      checkpoint: "started",
      envVars: { A: "1" },
    });
  });

  test("that fails reports the step, the reason and the step's output", async () => {
    const held = calls.hold();
    const build = await calls.begin("web");
    await held.begun(build);
    const entry = { at: NOW, level: "info", message: "make: *** [all] Error 2", step: "2" } as const;
    fixture.host.logBuild(build.buildID, [
      { ...entry, step: "base", level: "warn" },
      entry,
      { ...entry, level: "error", message: "exit status 2" },
      { ...entry, level: "debug", step: null },
    ]);
    held.end(build, { isReady: false, step: "2", message: "step 2 failed: exit status 2" });
    const ended = await calls.ended(build);
    expect(ended).toMatchObject({
      status: "error",
      reason: { message: "step 2 failed: exit status 2", step: "2", logEntries: [{ message: "exit status 2" }] },
      logs: [],
    });
    expect(ended.logEntries.map(({ level, step }) => [level, step])).toEqual([
      ["warn", "base"],
      ["info", "2"],
      ["error", "2"],
      ["debug", undefined],
    ]);
    expect((await fixture.call("POST", "/sandboxes", { templateID: "web" })).status).toBe(404);
  });

  test("from an unknown template fails at its base", async () => {
    const build = await calls.begin("web", { fromTemplate: "missing:v1" });
    expect(await calls.ended(build)).toMatchObject({
      status: "error",
      reason: { step: "base", message: expect.stringMatching(/missing:v1/) },
    });
  });

  test("that the host cannot run ends with an error, and the log has the details", async () => {
    fixture.host.buildAs = async () => {
      throw new Error("a tool broke");
    };
    const build = await calls.begin("web");
    expect(await calls.ended(build)).toMatchObject({
      status: "error",
      reason: { message: expect.stringMatching(/could not do the build/) },
    });
    expect(fixture.logLines.join("\n")).toContain("a tool broke");
  });

  test.each([
    [{ fromImage: "x", fromTemplate: "base" }, "both fromImage and fromTemplate"],
    [{ fromTemplate: null }, "neither fromImage nor fromTemplate"],
    [{ fromTemplate: null, fromImage: "a b" }, "white space"],
    [{ fromTemplate: null, fromImage: "Debian" }, 'the image name "Debian" is not valid'],
    [{ fromImageRegistry: { type: "registry", username: "u", password: "p" } }, "goes with fromImage"],
    [{ steps: [{ type: "EXPOSE" }] }, 'unknown type "EXPOSE"'],
    [{ steps: Array.from({ length: 101 }, () => ({ type: "RUN", args: ["true"] })) }, "101 steps; at most 100"],
    [
      { steps: [{ type: "COPY", args: ["a", "b"], filesHash: "0".repeat(64) }] },
      "files of step 1 have not been uploaded",
    ],
    [{ steps: [{ type: "COPY", args: ["a", "b"], filesHash: "x" }] }, "filesHash must be 64 characters"],
    [{ steps: "RUN" }, "steps must be"],
  ])("with %j is rejected, and fails with that reason", async (body, message) => {
    const requested = await calls.request("web");
    const reply = await calls.start(requested, body);
    expect([reply.status, reply.body.message]).toEqual([400, expect.stringContaining(message)]);
    expect(await calls.status(requested)).toMatchObject({
      status: "error",
      reason: { message: expect.stringContaining(message) },
    });
    const again = await calls.start(requested);
    expect([again.status, again.body.message]).toEqual([400, expect.stringContaining("Ask for a new one")]);
    await calls.begin("web");
  });

  test("with a body that is not JSON is rejected and fails; a running one continues", async () => {
    const held = calls.hold();
    const [broken, going] = [await calls.request("broken"), await calls.begin("web")];
    await held.begun(going);
    for (const { templateID, buildID } of [broken, going]) {
      const reply = await fixture.call("POST", `/v2/templates/${templateID}/builds/${buildID}`, "{");
      expect(reply.status).toBe(400);
    }
    expect([(await calls.status(broken)).status, (await calls.status(going)).status]).toEqual(["error", "building"]);
    held.end(going);
    expect((await calls.ended(going)).status).toBe("ready");
  });

  test("of another team does not fail by an invalid start", async () => {
    const [requested, stranger] = [await calls.request("web"), await fixture.anotherTeam("strangers")];
    expect((await calls.start(requested, { steps: "RUN" }, stranger)).status).toBe(400);
    expect((await calls.status(requested)).status).toBe("waiting");
  });

  test("starts from the template that replaces its image", async () => {
    const held = calls.hold();
    fixture.templatesOf.set("e2bdev/base", "base");
    fixture.templatesOf.set("debian", "nowhere");
    const requested = await calls.request("web");
    await calls.start(requested, { fromTemplate: null, fromImage: "e2bdev/base" });
    await held.begun(requested);
    expect(held.requests[0]?.from).toMatchObject({ kind: "template", from: { image: baseTemplate.image } });
    held.end(requested, { isReady: false, step: "base", message: "no" });
    await calls.ended(requested);
    const missing = await calls.request("web");
    await calls.start(missing, { fromTemplate: null, fromImage: "debian" });
    await calls.ended(missing);
    expect(await calls.status(missing)).toMatchObject({ status: "error", reason: { step: "base" } });
  });

  test("passes credentials to the host and stores them nowhere", async () => {
    const held = calls.hold();
    const requested = await calls.request("web");
    const secrets = { awsAccessKeyId: "AKIDSECRET", awsSecretAccessKey: "KEYSECRET", awsRegion: "eu-1" };
    await calls.start(requested, {
      fromTemplate: null,
      fromImage: "x",
      fromImageRegistry: { type: "aws", ...secrets },
      startCmd: "serve",
    });
    await held.begun(requested);
    expect(held.requests[0]?.from).toEqual({
      kind: "registry",
      image: "x",
      credentials: { type: "aws", accessKeyId: "AKIDSECRET", secretAccessKey: "KEYSECRET", region: "eu-1" },
    });
    held.end(requested, { isReady: false, step: "base", message: "401" });
    await calls.ended(requested);
    const stored = JSON.stringify(await fixture.store.builds.byId(requested.buildID));
    expect(stored).toContain("serve");
    for (const text of [stored, ...fixture.logLines]) expect(text).not.toContain("SECRET");
  });
});

describe("other teams", () => {
  test("find neither the template nor its builds", async () => {
    const build = await calls.begin("web");
    const key = { "X-API-Key": await fixture.anotherTeam("other") };
    const path = `/templates/${build.templateID}`;
    const { buildID } = build;
    for (const rest of [`/builds/${buildID}/status`, `/builds/${buildID}/logs`, `/files/${"0".repeat(64)}`]) {
      expect((await fixture.call("GET", path + rest, undefined, key)).status).toBe(404);
    }
    expect(
      (await fixture.call("POST", `/v2${path}/builds/${build.buildID}`, { fromTemplate: "base" }, key)).status,
    ).toBe(404);
  });

  test("reading an unknown build is 400, starting it 404; an invalid id is 400", async () => {
    const { templateID } = await calls.request("web");
    const unknown = "5a4d1075-ba5e-4000-8000-000000000001";
    const answers = [
      await fixture.call("GET", `/templates/${templateID}/builds/${unknown}/status`),
      await fixture.call("GET", `/templates/${templateID}/builds/${unknown}/logs`),
      await fixture.call("POST", `/v2/templates/${templateID}/builds/${unknown}`, { fromTemplate: "base" }),
      await fixture.call("GET", `/templates/${templateID}/builds/x/status`),
      await fixture.call("POST", `/v2/templates/${templateID}/builds/x`, { fromTemplate: "base" }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([400, 400, 404, 400, 400]);
  });
});
