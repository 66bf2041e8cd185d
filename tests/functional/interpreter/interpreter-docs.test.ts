/** The example in docs/interpreter.md does what the page says, word for word, and its limits match the code. */
import { expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inBytes } from "../../../src/contract/limit.ts";
import * as limits from "../../../src/interpreter/limits.ts";
import { run } from "../../../src/system/command.ts";
import { tableRows } from "../../conventions/markdown.ts";
import { PROJECT, readText } from "../../conventions/source-files.ts";
import { printedEnv } from "../../support/programs/printed-env.ts";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("code-interpreter-v1");

const page = readText("docs/interpreter.md");

test("the limits", () => {
  const rows = tableRows(page, ["Limit", "Value", "Constant", "Beyond it"]);
  const values = new Map<string, unknown>(Object.entries(limits));
  expect(rows.length).toBeGreaterThan(3);
  for (const { Value: value, Constant: name = "" } of rows) {
    const limit = Number(values.get(name));
    expect([name, value]).toEqual([name, name.endsWith("_BYTES") ? inBytes(limit) : String(limit)]);
  }
});

test("the example", async () => {
  const [, example = ""] = /```ts\n(.*?)```/s.exec(page) ?? [];
  // Where it finds the client.
  const path = join(PROJECT, `.interpreter-example-${process.pid}.ts`);
  writeFileSync(path, example);
  try {
    const env = printedEnv(server());
    const said = await run([process.execPath, path], { env, timeoutMs: 120_000 });
    expect(said).toBe('{"city":["Oslo","Rome"],"sun":[1,3]}\nhalf\nZeroDivisionError\n');
  } finally {
    rmSync(path);
  }
});
