/** The examples in docs/network.md print what the page says. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { run } from "../../../src/system/command.ts";
import { readText } from "../../conventions/source-files.ts";
import { printedEnv } from "../../support/programs/printed-env.ts";
import { sharedServer } from "../../support/shared-server.ts";

const PROJECT = join(import.meta.dir, "../../..");
const EXAMPLE_MS = 60_000;
const server = sharedServer();
const [rules = "", privately = ""] = [...readText("docs/network.md").matchAll(/^```ts\n(.*?)^```/gms)].map(
  ([, code = ""]) => code,
);

/** Where it finds the client. */
async function printed(code: string): Promise<string> {
  const env = printedEnv(server());
  return await run([process.execPath, "-e", code], { cwd: PROJECT, env, timeoutMs: EXAMPLE_MS });
}

test("rules by name and by address, and a change of them", async () => {
  expect(await printed(rules)).toBe("200 200 000\n200 000 200\n");
});

test("a private sandbox, by its host name", async () => {
  expect(await printed(privately)).toBe("403\nfor friends\n\n");
});
