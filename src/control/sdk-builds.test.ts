/** The unmodified JS SDK builds templates against this management API. */
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BuildError, type LogEntry, Sandbox, Template, waitForPort } from "e2b";
import { folderOfFile } from "../base/testing/test-folder.ts";
import type { BuildRequest } from "../contract/internal/host.ts";
import { ControlFixture, NOW } from "./testing/control-fixture.ts";

let fixture: ControlFixture;
let server: Bun.Server<undefined>;
let connection: { apiKey: string; apiUrl: string };
let requests: BuildRequest[];
/** The folder that clients copy from. */
const context = folderOfFile("context");

beforeAll(() => {
  mkdirSync(join(context, "app/deep"), { recursive: true });
  writeFileSync(join(context, "app/main.py"), "print('hello')\n");
  writeFileSync(join(context, "app/deep/data.txt"), "data\n");
  writeFileSync(join(context, "one.txt"), "one\n");
});

beforeEach(async () => {
  fixture = await ControlFixture.open();
  server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: (request) => fixture.control.handle(request) });
  connection = { apiKey: fixture.apiKey, apiUrl: server.url.origin };
  requests = [];
  const usual = fixture.host.buildAs;
  fixture.host.buildAs = async (request) => {
    requests.push(request);
    const textOf = (step: string, message: string) => ({ at: NOW, level: "info" as const, message, step });
    fixture.host.logBuild(request.id, [textOf("base", "from base"), textOf("1", "one"), textOf("finalize", "done")]);
    return await usual(request);
  };
});
afterEach(async () => {
  await server.stop(true);
  await fixture[Symbol.asyncDispose]();
});

/** Names in an archive that was uploaded, sorted. */
async function namesIn(blob: string): Promise<string[]> {
  const bytes = await new Response(await fixture.blobs.open(blob)).bytes();
  const listing = Bun.spawnSync(["tar", bytes[0] === 0x1f ? "-tzf" : "-tf", "-"], { stdin: bytes });
  return listing.stdout.toString().trim().split("\n").sort();
}

describe("Template.build", () => {
  test("sends files, steps and tags, receives the log, and sandboxes are created from the result", async () => {
    const received: LogEntry[] = [];
    const template = Template({ fileContextPath: context })
      .fromTemplate("base")
      .copy("app", "/srv/app", { user: "root", mode: 0o750 })
      .copy("one.txt", "one", { gzip: false } as never)
      .runCmd(["make", "make install"], { user: "root" })
      .setEnvs({ A: "1", B: "$A" })
      .setWorkdir("/srv")
      .setUser("app")
      .setStartCmd("serve", waitForPort(80));
    const onBuildLogs = (entry: LogEntry) => void received.push(entry);
    const built = await Template.build(template, "web:v1", { ...connection, tags: ["v2"], cpuCount: 1, onBuildLogs });
    expect(built).toMatchObject({ name: "web:v1", tags: ["v1", "v2"] });
    const [request] = requests;
    const copies = request?.steps.flatMap((step) => (step.type === "copy" ? [step.files] : [])) ?? [];
    expect(request).toMatchObject({
      id: built.buildId,
      templateId: built.templateId,
      from: { kind: "template" },
      start: { command: "serve", ready: expect.stringContaining(":80") },
      cpuCount: 1,
      force: false,
    });
    expect(request?.steps).toEqual([
      {
        type: "copy",
        files: copies[0] ?? "",
        source: "app",
        target: "/srv/app",
        owner: "root",
        mode: "0750",
        force: false,
      },
      { type: "copy", files: copies[1] ?? "", source: "one.txt", target: "one", owner: null, mode: null, force: false },
      { type: "run", command: "make && make install", user: "root", force: false },
      {
        type: "env",
        variables: [
          ["A", "1"],
          ["B", "$A"],
        ],
        force: false,
      },
      { type: "workdir", path: "/srv", force: false },
      { type: "user", name: "app", sudo: false, force: false },
    ]);
    expect(await namesIn(copies[0] ?? "")).toEqual(["app/", "app/deep/", "app/deep/data.txt", "app/main.py"]);
    expect(await namesIn(copies[1] ?? "")).toEqual(["one.txt"]);
    expect(received.map(({ message }) => message)).toEqual(expect.arrayContaining(["from base", "one", "done"]));
    for (const name of ["web:v1", "default/web:v2"]) {
      const sandbox = await Sandbox.create(name, connection);
      expect((await sandbox.getInfo()).templateId).toBe(built.templateId);
    }
    await expect(Sandbox.create("web", connection)).rejects.toThrow("404");
  });

  test("uploads equal files once, unless forced", async () => {
    const messages: string[] = [];
    const onBuildLogs = ({ message }: LogEntry) => void messages.push(message);
    const build = (forceUpload?: true) => {
      const template = Template({ fileContextPath: context }).fromTemplate("base");
      const options = forceUpload === undefined ? {} : { forceUpload };
      return Template.build(template.copy("one.txt", "one", options), "web", { ...connection, onBuildLogs });
    };
    await build();
    await build();
    await build(true);
    const uploads = messages.filter((message) => /one\.txt/.test(message));
    expect(uploads).toEqual([
      "Uploaded 'one.txt'",
      "Skipping upload of 'one.txt', already cached",
      "Uploaded 'one.txt'",
    ]);
    expect(await fixture.blobs.list("")).toHaveLength(1);
  });

  test("can skip layers, all of them or from a step on", async () => {
    const template = () => Template().fromTemplate("base").runCmd("a").skipCache().runCmd("b");
    await Template.build(template(), "web", { ...connection, skipCache: true });
    await Template.build(template(), "web", connection);
    expect(requests.map(({ force }) => force)).toEqual([true, false]);
    expect(requests[1]?.steps.map(({ force }) => force)).toEqual([false, true]);
  });

  test("reports the reason of a failure", async () => {
    fixture.host.buildAs = async () => ({ isReady: false, step: "1", message: "step 1 failed: exit status 2" });
    const failing = Template.build(Template().fromTemplate("base").runCmd("false"), "web", connection);
    await expect(failing).rejects.toThrow(BuildError);
    await expect(failing).rejects.toThrow("step 1 failed: exit status 2");
    await expect(Template.build(Template().fromTemplate("none"), "web", connection)).rejects.toThrow("does not exist");
  });

  test("runs in the background, and has a status", async () => {
    const built = await Template.buildInBackground(Template().fromTemplate("base"), "web", connection);
    await fixture.until(async () => (await Template.getBuildStatus(built, connection)).status === "ready");
    expect(await Template.getBuildStatus(built, { ...connection, logsOffset: 2 })).toMatchObject({
      templateID: built.templateId,
      buildID: built.buildId,
      logEntries: [{ message: "done", level: "info" }],
      logs: [],
    });
    expect(await Template.exists("web", connection)).toBe(true);
  });

  test("accepts images with credentials, and Dockerfiles", async () => {
    await Template.build(Template().fromImage("r.test/x:1", { username: "u", password: "p" }), "web", connection);
    const dockerfile = "FROM debian:12\nENV A=1\nCOPY one.txt /srv/\nRUN make\nCMD python3 -m http.server";
    await Template.build(Template({ fileContextPath: context }).fromDockerfile(dockerfile), "web", connection);
    expect(requests.map(({ from }) => from)).toEqual([
      { kind: "registry", image: "r.test/x:1", credentials: { type: "registry", username: "u", password: "p" } },
      { kind: "registry", image: "debian:12", credentials: null },
    ]);
    expect(requests[1]).toMatchObject({
      steps: [
        { type: "user", name: "root" },
        { type: "workdir", path: "/" },
        { type: "env", variables: [["A", "1"]] },
        { type: "copy", source: "one.txt", target: "/srv/" },
        { type: "run", command: "make" },
        { type: "user", name: "user" },
        { type: "workdir", path: "/home/user" },
      ],
      start: { command: "python3 -m http.server", ready: "sleep 20" },
    });
  });

  test("writes a Dockerfile that the server builds alike", async () => {
    const template = Template().fromImage("debian:12").runCmd("a && b").setEnvs({ A: "1" }).setWorkdir("/w");
    const written = Template.toDockerfile(template.setStartCmd("serve", "true"));
    await Template.build(Template().fromDockerfile(written), "web", connection);
    expect(requests[0]?.steps.slice(2)).toMatchObject([
      { type: "run", command: "a && b" },
      { type: "env", variables: [["A", "1"]] },
      { type: "workdir", path: "/w" },
      { type: "user", name: "user" },
    ]);
    expect(requests[0]?.start?.command).toBe("serve");
  });
});
