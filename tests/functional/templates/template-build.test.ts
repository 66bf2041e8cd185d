/** Templates that the unmodified SDK builds on a real server, and their sandboxes. */
import { beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type LogEntry, Sandbox, Template, Volume, waitForPort } from "e2b";
import { folderOfFile } from "../../../src/base/testing/test-folder.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const context = folderOfFile("context");
const received: LogEntry[] = [];

/** The output of a shell line in a new sandbox of the template. */
async function inside(name: string, line: string): Promise<string> {
  const sandbox = await Sandbox.create(name, server().options);
  try {
    return (await sandbox.commands.run(line)).stdout.trim();
  } finally {
    await sandbox.kill();
  }
}

const messages = (entries: readonly LogEntry[]) => entries.map(({ message }) => message).join("\n");

beforeAll(async () => {
  mkdirSync(join(context, "app/deep"), { recursive: true });
  writeFileSync(join(context, "app/main.py"), "print('hello')\n");
  writeFileSync(join(context, "app/deep/data.txt"), "data\n");
  const template = Template({ fileContextPath: context })
    .fromTemplate("base")
    .copy("app", "/srv/app", { user: "root", mode: 0o755 })
    .runCmd("cat /srv/app/deep/data.txt && echo made > /opt/made", { user: "root" })
    .setEnvs({ GREETING: "hello", BOTH: "$HOME:x" })
    .setUser("builder")
    .setWorkdir("/home/builder/site");
  await Template.build(template, "first:v1", {
    ...server().options,
    tags: ["stable"],
    cpuCount: 1,
    memoryMB: 512,
    onBuildLogs: (entry) => void received.push(entry),
  });
});

describe("a template of files, commands, variables, a user and a folder", () => {
  test("is the base of its sandboxes, under each of its tags", async () => {
    const line =
      "id -un; pwd; echo $GREETING; echo $BOTH; cat /opt/made; python3 /srv/app/main.py; stat -c %U /srv/app";
    const output = ["builder", "/home/builder/site", "hello", "/home/user:x", "made", "hello", "root"].join("\n");
    expect(await inside("first:v1", line)).toBe(output);
    expect(await inside("first:stable", "cat /srv/app/deep/data.txt")).toBe("data");
  });

  test("has the requested size", async () => {
    const sandbox = await Sandbox.create("first:v1", server().options);
    expect(await sandbox.getInfo()).toMatchObject({ cpuCount: 1, memoryMB: 512 });
    await sandbox.kill();
  });

  test("sends its log to the client while it is built", () => {
    expect(messages(received)).toContain("data");
    expect(received.every(({ timestamp }) => timestamp instanceof Date)).toBe(true);
  });

  test("is a base for other templates, which inherit its user and variables", async () => {
    const second = Template().fromTemplate("first:v1").runCmd("echo $GREETING > mine");
    await Template.build(second, "second", server().options);
    expect(await inside("second", "id -un; pwd; cat mine /opt/made")).toBe("builder\n/home/builder/site\nhello\nmade");
  });

  test("exists until it is deleted", async () => {
    expect(await Template.exists("first:v1", server().options)).toBe(true);
    expect(await Template.exists("first:other", server().options)).toBe(false);
    await Template.build(Template().fromTemplate("base"), "short", server().options);
    expect((await server().call("DELETE", "/templates/short")).status).toBe(204);
    expect(await Template.exists("short", server().options)).toBe(false);
  });
});

test("a start command runs in every sandbox from its start", async () => {
  const template = Template()
    .fromTemplate("base")
    .setWorkdir("/home/user/site")
    .runCmd("echo served > index.html")
    .setStartCmd("python3 -m http.server 8000", waitForPort(8000));
  await Template.build(template, "served", server().options);
  const sandbox = await Sandbox.create("served", server().options);
  expect((await sandbox.commands.run("curl -s localhost:8000/")).stdout).toBe("served\n");
  await sandbox.kill();
  // A volume cannot be added to a memory checkpoint, so the command starts again, with the volume mounted.
  const volume = await Volume.create("served", server().options);
  const volumeMounts = { "/home/user/site/data": volume };
  const mounted = await Sandbox.create("served", { ...server().options, volumeMounts });
  await mounted.files.write("/home/user/site/data/new.html", "of a volume");
  expect((await mounted.commands.run("curl -s localhost:8000/data/new.html")).stdout).toBe("of a volume");
  await mounted.kill();
  await Volume.destroy(volume.volumeId, server().options);
});
