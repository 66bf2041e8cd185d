/** The example in docs/desktop.md does what the page says, word for word. */
import { expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../../src/system/command.ts";
import { PROJECT, readText } from "../../conventions/source-files.ts";
import { printedEnv } from "../../support/programs/printed-env.ts";
import { desktopServer } from "../../support/screen/desktop.ts";

const server = desktopServer();

const [example = "", , stream = ""] = [...readText("docs/desktop.md").matchAll(/```ts\n(.*?)```/gs)].map(
  ([, code]) => code,
);

/** The output of the program. */
async function printed(program: string): Promise<string> {
  // Where it finds the client.
  const path = join(PROJECT, `.desktop-example-${process.pid}.ts`);
  writeFileSync(path, program);
  try {
    const env = printedEnv(server());
    return await run([process.execPath, path], { env, timeoutMs: 120_000 });
  } finally {
    rmSync(path);
  }
}

test("the example", async () => {
  expect(await printed(example)).toBe("Hello - Chromium {\n  x: 400,\n  y: 300,\n} true\n");
});

test("the stream without TLS", async () => {
  const program = `
    import { Sandbox } from "@e2b/desktop";
    const desktop = await Sandbox.create();
    ${stream}
    const page = await fetch(url);
    console.log(page.status, (await page.text()).includes("noVNC"));
    await desktop.kill();`;
  expect(await printed(program)).toBe("200 true\n");
});
