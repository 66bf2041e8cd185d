/** Packages that a cell installs, from an internet of the test's own. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { OUTSIDE } from "../../../src/host/testing/outer-network.ts";
import { interpreterOfFile } from "../../support/interpreter/interpreter-of-file.ts";
import { writePackages } from "../../support/services/package-source.ts";
import { startFileServer } from "../../support/services/registry.ts";

const PORT = 5081;
const URL = `http://${OUTSIDE}:${PORT}`;
const interpreter = interpreterOfFile();
const folder = mkdtempSync(join(tmpdir(), "sandlot-packages-"));
let source: AsyncDisposable | undefined;
beforeAll(async () => {
  await writePackages(folder, URL);
  source = await startFileServer(folder, OUTSIDE, PORT);
});
afterAll(async () => {
  await source?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test("are found by the next line, also where Debian has an older one, and so are their commands", async () => {
  const envs = { PIP_INDEX_URL: `${URL}/pip`, PIP_TRUSTED_HOST: OUTSIDE, npm_config_registry: `${URL}/npm/` };
  const run = async (code: string) => {
    const { logs, error } = await interpreter().runCode(code, { envs, timeoutMs: 120_000 });
    expect(error).toBeUndefined();
    return logs.stdout.join("").trimEnd().split(/\r?\n/).at(-1);
  };
  expect(await run("!pip install hello-pip\nimport hello_pip; hello_pip.main()\n!hello-pip")).toBe("hello of pip");
  await run("%pip install --upgrade xlrd");
  expect(await run("from importlib.metadata import version; print(version('xlrd'))")).toBe("99.0");
  expect(await run("!npm install -g --no-audit hello-npm && hello-npm")).toBe("hello of npm");
}, 120_000);
