/** Server logs have one format (src/base/log.ts). Only programs that people run in a terminal print. */
import { expect, test } from "bun:test";
import { isTestCode } from "./import-rules.ts";
import { sourceFiles } from "./source-files.ts";

/** Commands, and programs whose output another part of the project reads. */
const PRINTS = /^src\/(?:cli|setup|sandbox\/volume\/program|egress\/program|guest\/programs)\/|^src\/mcp\/main\.ts$/;
/** The guest has its own log, on the standard error of its sandbox. */
const GUEST_LOG = "src/guest/system/log.ts";

test("server code does not print directly", () => {
  const found = sourceFiles()
    .filter(({ path }) => !isTestCode(path) && !PRINTS.test(path) && path !== GUEST_LOG)
    .filter(({ text }) => /\bconsole\.\w+\(|\bprocess\.std(?:out|err)\.write\(/.test(text))
    .map(({ path }) => path);
  expect(found).toEqual(["src/base/log.ts"]);
});
