/** Building a Dockerfile on the server, through the first generation of the interface. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { createAccessToken } from "../access/keys.ts";
import { BuildCalls } from "../testing/build-calls.ts";
import { baseTemplate, ControlFixture, NOW } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
let calls: BuildCalls;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  calls = new BuildCalls(fixture);
});
afterEach(() => fixture[Symbol.asyncDispose]());

let bearer: Record<string, string>;
beforeEach(async () => {
  const { secret } = await createAccessToken(fixture, { userId: fixture.firstRun.userId, name: "t" });
  bearer = { Authorization: `Bearer ${secret}` };
});
const post = (path: string, body: Record<string, unknown>) => fixture.call("POST", path, body, bearer);

test("a Dockerfile is built at once, and a later start changes nothing", async () => {
  const held = calls.hold();
  const reply = await post("/templates", { dockerfile: "FROM debian\nRUN a\nCMD b", alias: "web", cpuCount: 1 });
  expect([reply.status, reply.body]).toMatchObject([202, { aliases: ["web"], cpuCount: 1, buildStatus: "uploaded" }]);
  const build = reply.body as never as { templateID: string; buildID: string };
  await held.begun(build);
  expect(held.requests[0]).toMatchObject({
    from: { kind: "registry", image: "debian", credentials: null },
    start: { command: "b", ready: null },
    cpuCount: 1,
  });
  const path = `/templates/${build.templateID}/builds/${build.buildID}`;
  const again = await fixture.call("POST", path, undefined, bearer);
  expect([again.status, again.headers.get("content-length")]).toEqual([202, "0"]);
  expect((await fixture.call("POST", `/v2${path}`, { fromImage: "x" })).status).toBe(202);
  fixture.host.logBuild(build.buildID, [{ at: NOW, level: "info", message: "hello", step: "1" }]);
  held.end(build);
  expect(await calls.ended(build)).toMatchObject({
    status: "ready",
    logs: [`[${new Date(NOW).toISOString()}] hello\n`],
    logEntries: [{ message: "hello" }],
  });
  expect(held.requests).toHaveLength(1);
});

test("a Dockerfile is built again for a template, which may get another name", async () => {
  const first = await post("/templates", { dockerfile: "FROM debian", alias: "old" });
  const again = await post(`/templates/${first.body.templateID}`, { dockerfile: "FROM alpine", alias: "new" });
  expect([again.status, again.body]).toMatchObject([202, { templateID: first.body.templateID, aliases: ["new"] }]);
  await calls.request("taken");
  const taken = await post(`/templates/${first.body.templateID}`, { dockerfile: "FROM alpine", alias: "taken" });
  expect(taken.status).toBe(403);
});

test("a Dockerfile may have no name, and the request may replace its start command", async () => {
  const held = calls.hold();
  const reply = await post("/templates", { dockerfile: "FROM x\nCMD b", startCmd: "c", readyCmd: "d" });
  await held.begun(reply.body as never);
  expect(reply.body).toMatchObject({ aliases: [], names: [] });
  expect(held.requests[0]?.start).toEqual({ command: "c", ready: "d" });
});

test.each([
  [{ dockerfile: "FROM x\nCOPY a b" }, 400, "Dockerfile, line 2: COPY is not supported"],
  [{ dockerfile: `FROM x\n${"RUN a\n".repeat(97)}` }, 400, "101 steps; at most 100"],
  [{ dockerfile: "FROM x", teamID: "other" }, 403, "teamID is not a team"],
  [{}, 400, "dockerfile must be a string"],
])("%j is refused", async (body, status, message) => {
  const reply = await post("/templates", body);
  expect([reply.status, reply.body.message]).toEqual([status, expect.stringContaining(message)]);
});

test("a build for a template of another user is 404, and an API key is rejected", async () => {
  expect((await post(`/templates/${baseTemplate.id}`, { dockerfile: "FROM x" })).status).toBe(404);
  expect((await fixture.call("POST", "/templates", { dockerfile: "FROM x" })).status).toBe(401);
});

test("a build without a Dockerfile cannot be started by the older route", async () => {
  const { templateID, buildID } = await calls.request("web");
  const reply = await fixture.call("POST", `/templates/${templateID}/builds/${buildID}`, undefined, bearer);
  expect([reply.status, reply.body.message]).toEqual([400, expect.stringContaining("has no Dockerfile")]);
});
