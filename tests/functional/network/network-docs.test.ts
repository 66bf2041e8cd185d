/** The examples in docs/network.md print what the page says. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { run } from "../../../src/host/system/command.ts";
import { readText } from "../../house/source-files.ts";
import { sharedServer } from "../../support/shared-server.ts";

const PROJECT = join(import.meta.dir, "../../..");
const EXAMPLE_MS = 60_000;
const server = sharedServer();
const [rules = ""] = [...readText("docs/network.md").matchAll(/^```ts\n(.*?)^```/gms)].map(([, code = ""]) => code);

/** Where it finds the client. */
async function printed(code: string): Promise<string> {
  const { url, apiKey } = server();
  const env = { E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: apiKey };
  return await run([process.execPath, "-e", code], { cwd: PROJECT, env, timeoutMs: EXAMPLE_MS });
}

test("rules by name and by address, and a change of them", async () => {
  expect(await printed(rules)).toBe("200 200 000\n200 000 200\n");
});
