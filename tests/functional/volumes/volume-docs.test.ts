/** The example in docs/volumes.md does what the page says, word for word. */
import { expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../../src/system/command.ts";
import { printedEnv } from "../../support/programs/printed-env.ts";
import { sharedServer } from "../../support/shared-server.ts";

const PROJECT = join(import.meta.dir, "../../..");
const server = sharedServer();

test("the example in TypeScript", async () => {
  const page = await Bun.file(join(PROJECT, "docs/volumes.md")).text();
  const [, example = ""] = /```ts\n(.*?)```/s.exec(page) ?? [];
  // Where it finds the client.
  const path = join(PROJECT, `.example-${process.pid}.ts`);
  writeFileSync(path, example);
  try {
    const env = printedEnv(server());
    expect(await run([process.execPath, path], { env })).toBe("1\n2\n3\n\n");
  } finally {
    rmSync(path);
  }
});
