/** The example in docs/interpreter.md does what the page says, word for word, and its limits match the code. */
import { expect, test } from "bun:test";
import { inBytes } from "../../../src/contract/limit.ts";
import * as context from "../../../src/interpreter/context.ts";
import * as contexts from "../../../src/interpreter/contexts.ts";
import * as stream from "../../../src/interpreter/execution-stream.ts";
import * as limits from "../../../src/interpreter/limits.ts";
import { tableRows } from "../../conventions/markdown.ts";
import { readText } from "../../conventions/source-files.ts";
import { printedBy, typeScriptIn } from "../../support/programs/example.ts";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("code-interpreter-v1");

const page = readText("docs/interpreter.md");

test("the page has the limits of the code", () => {
  const rows = tableRows(page, ["Limit", "Value", "Constant", "Beyond it"]);
  const values = new Map<string, unknown>([context, contexts, stream, limits].flatMap((file) => Object.entries(file)));
  expect(rows.length).toBeGreaterThan(3);
  for (const { Value: value, Constant: name = "" } of rows) {
    const limit = Number(values.get(name));
    expect([name, value]).toEqual([name, name.endsWith("_BYTES") ? inBytes(limit) : String(limit)]);
  }
});

test("the example prints what the page says", async () => {
  const [example = ""] = typeScriptIn("docs/interpreter.md");
  expect(await printedBy(example, server())).toBe('{"city":["Oslo","Rome"],"sun":[1,3]}\nhalf\nZeroDivisionError\n');
});
