/** The example in docs/desktop.md does what the page says, word for word. */
import { expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../../src/host/system/command.ts";
import { PROJECT, readText } from "../../house/source-files.ts";
import { desktopServer } from "../../support/screen/desktop.ts";

const server = desktopServer();

test("the example", async () => {
  const [, example = ""] = /```ts\n(.*?)```/s.exec(readText("docs/desktop.md")) ?? [];
  const { url, apiKey } = server();
  // Where it finds the client.
  const path = join(PROJECT, `.desktop-example-${process.pid}.ts`);
  writeFileSync(path, example);
  try {
    const env = { E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: apiKey };
    const said = await run([process.execPath, path], { env, timeoutMs: 120_000 });
    expect(said).toBe("Hello - Chromium {\n  x: 400,\n  y: 300,\n} true\n");
  } finally {
    rmSync(path);
  }
}, 120_000);
