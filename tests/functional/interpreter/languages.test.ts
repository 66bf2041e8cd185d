/** JavaScript, TypeScript and bash through the unmodified client; tests beside the runners cover cells in detail. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Sandbox } from "@e2b/code-interpreter";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("code-interpreter-v1");
let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await Sandbox.create(server().options);
});

afterAll(async () => {
  await sandbox.kill();
});

interface LanguageCase {
  language: string;
  prints: string;
  fails: string;
  error: { name: string; value: string };
  variable: string;
  sets: string;
  reads: string;
  folder: string;
}

const CASES: LanguageCase[] = [
  ...["js", "ts"].map((language) => ({
    language,
    prints: "console.log('one\\nand\\u00e9'); console.error('two')",
    fails: "throw new TypeError('bad')",
    error: { name: "TypeError", value: "bad" },
    variable: "console.log(process.env.CALL)",
    sets: "const kept = 5",
    reads: "console.log(kept)",
    folder: "console.log(process.cwd())",
  })),
  {
    language: "bash",
    prints: "printf 'one\\nand\\u00e9\\n'; echo two >&2",
    fails: "exit 7",
    error: { name: "", value: "7" },
    variable: "echo $CALL",
    sets: "kept=5",
    reads: "echo $kept",
    folder: "pwd",
  },
];

describe.each(CASES)("$language", ({ language, prints, fails, error, variable, sets, reads, folder }) => {
  test("prints output and returns errors", async () => {
    const { logs } = await sandbox.runCode(prints, { language });
    expect(logs.stdout.join("")).toBe("one\nandé\n");
    expect(logs.stderr).toEqual(["two\n"]);
    expect((await sandbox.runCode(fails, { language })).error).toMatchObject(error);
  });

  test("keeps its state, and drops the variables of a call after it", async () => {
    await sandbox.runCode(sets, { language });
    expect((await sandbox.runCode(reads, { language })).logs.stdout).toEqual(["5\n"]);
    expect((await sandbox.runCode(variable, { language, envs: { CALL: "it's" } })).logs.stdout).toEqual(["it's\n"]);
    expect((await sandbox.runCode(variable, { language })).logs.stdout).not.toEqual(["it's\n"]);
  });

  test("has contexts with their own folders", async () => {
    expect((await sandbox.runCode(folder, { language })).logs.stdout).toEqual(["/home/user\n"]);
    const context = await sandbox.createCodeContext({ language, cwd: "/root" });
    expect((await sandbox.runCode(folder, { context })).logs.stdout).toEqual(["/root\n"]);
    expect((await sandbox.runCode(reads, { context })).logs.stdout).not.toEqual(["5\n"]);
  });
});

test("a kernel that exits in a cell is replaced", async () => {
  const language = "js";
  expect((await sandbox.runCode("process.exit(1)", { language })).error).toMatchObject({ name: "ContextRestarting" });
  expect((await sandbox.runCode("typeof kept", { language })).text).toBe("undefined");
});

test("after a client leaves an endless loop, variables are unchanged", async () => {
  const language = "js";
  await sandbox.runCode("const before = 'here'", { language });
  const loop = sandbox.runCode("await 1; while (true);", { language, timeoutMs: 2_000 });
  await expect(loop).rejects.toThrow();
  expect((await sandbox.runCode("before", { language })).text).toBe("here");
});
