/** What docs/templates.md shows works as it stands there. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { Sandbox, Template } from "e2b";
import { sandlotKeys } from "../../support/sandlot-keys.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const PROJECT = join(import.meta.dir, "../../..");
const BUILD_MS = 120_000;
const server = sharedServer();

/** The first block of this language on the page. */
async function example(language: string): Promise<string> {
  const page = await Bun.file(join(PROJECT, "docs/templates.md")).text();
  return new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "ms").exec(page)?.[1] ?? "";
}

test(
  "the example in TypeScript builds a template whose sandboxes serve a page",
  async () => {
    const { url, apiKey } = server();
    const run = Bun.spawn([process.execPath, "-e", await example("ts")], {
      cwd: PROJECT,
      env: { PATH: process.env.PATH ?? "", E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: apiKey },
      stderr: "pipe",
    });
    expect([await run.exited, await new Response(run.stderr).text()]).toEqual([0, ""]);
    const sandbox = await Sandbox.create("site", server().options);
    expect((await sandbox.commands.run("curl -s localhost:8000/")).stdout).toBe("hello\n");
    expect(await sandbox.getInfo()).toMatchObject({ cpuCount: 1, memoryMB: 512 });
  },
  BUILD_MS,
);

test(
  "the example as a Dockerfile builds the same",
  async () => {
    const { url, options } = server();
    const reply = await fetch(`${url}/templates`, {
      method: "POST",
      headers: { Authorization: `Bearer ${await sandlotKeys(server(), "token", "docs")}` },
      body: JSON.stringify({
        alias: "site",
        dockerfile: await example("dockerfile"),
        readyCmd: "curl -sf localhost:8000",
      }),
    });
    const { templateID: templateId, buildID: buildId } = (await reply.json()) as Record<string, string>;
    const status = () => Template.getBuildStatus({ templateId: `${templateId}`, buildId: `${buildId}` }, options);
    await until("the build is over", async () => /ready|error/.test((await status()).status), BUILD_MS);
    expect(await status()).toMatchObject({ status: "ready" });
    const sandbox = await Sandbox.create(`site:${buildId}`, options);
    expect((await sandbox.commands.run("curl -s localhost:8000/")).stdout).toBe("hello\n");
  },
  BUILD_MS,
);

test("the example in Python is Python", async () => {
  const code = "import ast, sys; ast.parse(sys.stdin.read())";
  const check = Bun.spawn(["python3", "-c", code], { stdin: new TextEncoder().encode(await example("python")) });
  expect(await check.exited).toBe(0);
});
