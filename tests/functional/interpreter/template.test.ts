/** The template of the interpreter, built by the command of the operator. */
import { expect, test } from "bun:test";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { attempt } from "../../../src/host/system/command.ts";
import { serverOfFile } from "../../support/server-of-file.ts";

const MAIN = `${import.meta.dir}/../../../src/cli/main.ts`;
const NAME = "code-interpreter-v1";
const BUILT_WITHIN_MS = 110_000;

const server = serverOfFile("interpreter-template", { SANDLOT_READY: "0" });

async function templates(...args: string[]) {
  const env = serverEnv(server().dataFolder);
  return await attempt([process.execPath, MAIN, "templates", ...args], { env, timeoutMs: BUILT_WITHIN_MS });
}

test("a running server builds it when the operator asks, who sees how it goes", async () => {
  expect((await templates()).stdout).toMatch(/code-interpreter-v1 .* version=[0-9a-f]{16} {2}state=not built /);
  const { exitCode, stdout, stderr } = await templates("build", NAME);
  expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^code-interpreter-v1 [0-9a-f]{16} is built\n$/)]);
  expect(stderr).toMatch(/^sandlot: building the template code-interpreter-v1\n(?:.*\n)* {2}done in \d+ s\n$/);
  expect((await templates()).stdout).toContain("state=built ");
  // There is nothing more to do.
  expect(await templates("build", NAME)).toEqual({ exitCode: 0, stdout, stderr: "" });
});
