/** Packages that a cell installs, from the test's own internet. */
import { expect, test } from "bun:test";
import { interpreterOfFile } from "../../support/interpreter/interpreter-of-file.ts";
import { packageSourceOfFile } from "../../support/services/package-source.ts";

const interpreter = interpreterOfFile();
const { variables: envs } = packageSourceOfFile(5081);

test("an installed package and its commands are found by the next line, before Debian's older version", async () => {
  const run = async (code: string) => {
    const { logs, error } = await interpreter().runCode(code, { envs, timeoutMs: 120_000 });
    expect(error).toBeUndefined();
    return logs.stdout.join("").trimEnd().split(/\r?\n/).at(-1);
  };
  expect(await run("!pip install hello-pip\nimport hello_pip; hello_pip.main()\n!hello-pip")).toBe("hello of pip");
  await run("%pip install --upgrade xlrd");
  expect(await run("from importlib.metadata import version; print(version('xlrd'))")).toBe("99.0");
  expect(await run("!npm install -g hello-npm && hello-npm")).toBe("hello of npm");
});
