/** The examples in docs/templates.md work as they stand there. */
import { beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { Template } from "e2b";
import { folderOfFile } from "../../../src/base/testing/test-folder.ts";
import { run } from "../../../src/system/command.ts";
import { readText } from "../../conventions/source-files.ts";
import { printedEnv } from "../../support/programs/printed-env.ts";
import { sandlotKeys } from "../../support/sandlot-keys.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const PROJECT = join(import.meta.dir, "../../..");
const EXAMPLE_MS = 120_000;
const server = sharedServer();
const page = readText("docs/templates.md");
/** Where a reader works. */
const folder = folderOfFile("templates-docs");

/** All blocks of this language on the page, in their order. */
function examples(language: string): string[] {
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms"))].map(([, code = ""]) => code);
}

const [build = "", create = "", tags = ""] = examples("ts");
const [withCommand = "", withCurl = ""] = examples("sh");

beforeAll(() => writeFileSync(join(folder, "Dockerfile"), examples("dockerfile")[0] ?? ""));

async function reader(argv: [string, ...string[]], env: Record<string, string> = {}, cwd = folder): Promise<string> {
  const path = [join(PROJECT, "node_modules/.bin"), process.env.PATH ?? ""].join(delimiter);
  const own = { PATH: path, HOME: folder, ...printedEnv(server()) };
  return await run(argv, { cwd, env: { ...own, ...env }, timeoutMs: EXAMPLE_MS });
}

/** Where it finds the client. */
const inTypeScript = (code: string) => reader([process.execPath, "-e", code], {}, PROJECT);

/** Builds the template with the page's example, and checks the greeting of the page's sandbox. */
async function isBuiltBy(example: () => Promise<unknown>): Promise<void> {
  const before = await builds();
  await example();
  await until("the build is over", async () => (await builds()) > before, EXAMPLE_MS);
  expect(await inTypeScript(create)).toBe("hello\n\n");
}

/** How many builds of the template are ready. */
async function builds(): Promise<number> {
  const { templateID } = (await server().call("GET", "/templates/aliases/site")).body;
  if (templateID === undefined) return 0;
  const all = (await server().call("GET", `/templates/${templateID}`)).body.builds as { status: string }[];
  return all.filter(({ status }) => status === "ready").length;
}

test("the example in TypeScript builds a template whose sandboxes serve a page, and its tags can be moved", async () => {
  await isBuiltBy(() => inTypeScript(build));
  await inTypeScript(`${build}\n${tags}`);
  for (const name of ["site:v2", "site:stable"]) expect(await Template.exists(name, server().options)).toBe(true);
});

test("the requests of the Python example build the same template", async () => {
  const standIn = { PYTHONPATH: join(PROJECT, "tests/support/python"), PYTHONDONTWRITEBYTECODE: "1" };
  await isBuiltBy(() => reader(["python3", "-c", examples("python")[0] ?? ""], standIn));
});

test("the Dockerfile is built by the e2b command", () =>
  isBuiltBy(() => reader(["bash", "-c", withCommand], { NO_UPDATE_NOTIFIER: "1" })));

test("the Dockerfile is built by the server", async () => {
  const TOKEN = await sandlotKeys(server(), "token");
  await isBuiltBy(() => reader(["bash", "-c", withCurl], { TOKEN }));
});
