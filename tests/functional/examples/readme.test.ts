/** The programs of README.md run unchanged in a fresh clone, with the lines that the server prints. */
import { expect, test } from "bun:test";
import { readText } from "../../conventions/source-files.ts";
import { FreshClone } from "../../support/programs/fresh-clone.ts";
import { printedEnv } from "../../support/programs/printed-env.ts";
import { leftOn, sharedServer } from "../../support/shared-server.ts";

const PROGRAM_MS = 120_000;
const server = sharedServer();
const readme = readText("README.md");
const [first = "", pause = "", template = ""] = [...readme.matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);
const IMPORT = 'import { Sandbox } from "e2b";\n';

async function printed(program: string): Promise<string> {
  using clone = new FreshClone();
  return await clone.run(["node", "--input-type=module", "--eval", program], printedEnv(server()), PROGRAM_MS);
}

test("the variables match those that the server prints", () => {
  const shown = [...(/```sh\n(export .*?)```/s.exec(readme)?.[1]?.matchAll(/^export (\w+)=(.*)$/gm) ?? [])];
  const { port } = new URL(server().url);
  const theirs = Object.fromEntries(shown.map(([, name = "", value = ""]) => [name, value.replace("3000", port)]));
  expect(theirs).toEqual({ ...printedEnv(server()), E2B_API_KEY: "e2b_…" });
});

test("the first program runs", async () => {
  expect(await printed(first)).toMatch(/^hello from \S+\n\n$/);
  expect((await leftOn(server())).sandboxes).toEqual([]);
});

test("the program with pause and fork runs", async () => {
  const begin = `${IMPORT}const sandbox = await Sandbox.create();`;
  const end = 'console.log((await copy.commands.run("echo copied")).stdout);';
  expect(await printed(`${begin}\n${pause}\n${end}`)).toBe("copied\n\n");
});

test("the program with a template runs", async () => {
  const end = 'console.log((await greeter.commands.run("cat greeting")).stdout);';
  expect(await printed(`${IMPORT}${template}\n${end}`)).toBe("hello\n\n");
});

test("getHost() and links to files point to this server", async () => {
  const program = `${IMPORT}
    const sandbox = await Sandbox.create();
    await sandbox.files.write("served", "by its URL");
    await sandbox.commands.run("python3 -m http.server 8000", { background: true });
    await sandbox.commands.run("until curl -s localhost:8000; do sleep 0.1; done");
    console.log(JSON.stringify([\`http://\${sandbox.getHost(8000)}/served\`, await sandbox.downloadUrl("served")]));
    process.exit();`;
  const urls = JSON.parse(await printed(program)) as string[];
  expect(await Promise.all(urls.map(async (url) => (await fetch(url)).text()))).toEqual(["by its URL", "by its URL"]);
});
