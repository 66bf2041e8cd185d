/** The interpreter's template, built by the operator's command. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { attempt } from "../../../src/system/command.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";

const MAIN = `${import.meta.dir}/../../../src/cli/main.ts`;
const NAME = "code-interpreter-v1";
const BUILT_WITHIN_MS = 300_000;

const dataFolder = foldersOfFile()("interpreter-template");
let server: TestServer;
beforeAll(async () => {
  server = await startServer(dataFolder, { SANDLOT_READY: "0" });
});

async function templates(...args: string[]) {
  const env = serverEnv(dataFolder);
  return await attempt([process.execPath, MAIN, "templates", ...args], { env, timeoutMs: BUILT_WITHIN_MS });
}

test("a template build that a crash interrupted starts again at the next create", async () => {
  const refused = await Sandbox.create(NAME, server.options).catch((error: Error) => error.message);
  expect(refused).toContain('template "code-interpreter-v1" is being built');
  await server.crash();
  server = await startServer(dataFolder, { SANDLOT_READY: "0" });
  expect((await templates()).stdout).toContain("state=not built (the last build failed)");
  expect(await Sandbox.create(NAME, server.options).catch((error: Error) => error.message)).toContain("is being built");
});

test("`sandlot templates build` joins the running build, shows its progress and waits for its end", async () => {
  const { exitCode, stdout, stderr } = await templates("build", NAME);
  expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^code-interpreter-v1 [0-9a-f]{16} is built\n$/)]);
  expect(stderr).toMatch(/^sandlot: building the template code-interpreter-v1\n(?:.*\n)* {2}done in \d+ s\n$/);
  expect((await templates()).stdout).toMatch(/code-interpreter-v1 .* version=[0-9a-f]{16} {2}state=built /);
  // A second build has nothing to do.
  expect(await templates("build", NAME)).toEqual({ exitCode: 0, stdout, stderr: "" });
});
