/** R and Java, whose kernels start on first use, and their earlier names. */
import { describe, expect, test } from "bun:test";
import { Sandbox } from "@e2b/code-interpreter";
import { LONG } from "../../../src/base/testing/long.ts";
import { interpreterOfFile } from "../../support/interpreter/interpreter-of-file.ts";
import { templateServer } from "../../support/template-server.ts";

const interpreter = interpreterOfFile();

test("R shows values, errors, output, variables and folders", async () => {
  const language = "r";
  expect((await interpreter().runCode("x <- 1 + 1\nx", { language })).results[0]?.text).toBe("[1] 2");
  expect((await interpreter().runCode("cat('one\\n')", { language })).logs.stdout).toEqual(["one\n"]);
  expect((await interpreter().runCode("message('two')", { language })).logs.stderr.join("")).toContain("two");
  expect((await interpreter().runCode("stop('bad')", { language })).error?.value).toContain("bad");
  expect((await interpreter().runCode("x", { language })).results[0]?.text).toBe("[1] 2");
  const variable = "cat(Sys.getenv('CALL', 'unset'))";
  const envs = { CALL: 'it\'s "1" \\ é' };
  expect((await interpreter().runCode(variable, { language, envs })).logs.stdout.join("")).toBe(envs.CALL);
  expect((await interpreter().runCode(variable, { language })).logs.stdout.join("")).toBe("unset");
  const context = await interpreter().createCodeContext({ language, cwd: "/root" });
  expect((await interpreter().runCode("cat(getwd())", { context })).logs.stdout.join("")).toBe("/root");
});

test("R draws different numbers in each fork", async () => {
  const language = "r";
  await interpreter().runCode("runif(1)", { language });
  const forks = (await interpreter().fork({ count: 3, timeoutMs: 600_000 })).filter((fork) => fork instanceof Sandbox);
  const draw = async (each: Sandbox) => (await each.runCode("cat(runif(1))", { language })).logs.stdout.join("");
  const drawn = await Promise.all([interpreter(), ...forks].map(draw));
  expect(new Set(drawn).size).toBe(4);
  await Promise.all(forks.map((fork) => fork.kill()));
});

test("Java shows values, errors, output, variables and folders", async () => {
  const language = "java";
  expect((await interpreter().runCode("int x = 2;\nx + 1", { language })).text).toBe("3");
  expect((await interpreter().runCode('System.out.println("one")', { language })).logs.stdout).toEqual(["one", "\n"]);
  const { error } = await interpreter().runCode('throw new RuntimeException("bad");', { language });
  expect(error).toMatchObject({ name: "RuntimeException", value: "bad" });
  const variable = 'System.out.print(System.getProperty("CALL"))';
  expect((await interpreter().runCode(variable, { language, envs: { CALL: "it's" } })).logs.stdout).toEqual(["it's"]);
  expect((await interpreter().runCode(variable, { language })).logs.stdout).toEqual(["null"]);
  const context = await interpreter().createCodeContext({ language, cwd: "/root" });
  const folder = 'System.out.print(System.getProperty("user.dir"))';
  expect((await interpreter().runCode(folder, { context })).logs.stdout).toEqual(["/root"]);
});

test("R and Java return all output before a cell ends", async () => {
  for (let time = 0; time < (LONG ? 50 : 2); time++) {
    const r = await interpreter().runCode("for (i in 1:500) cat(i, '\\n')", { language: "r" });
    expect(r.logs.stdout.join("").split("\n").length).toBe(501);
    const code = 'new ProcessBuilder("seq", "500").inheritIO().start().waitFor()';
    const java = await interpreter().runCode(code, { language: "java" });
    expect(java.logs.stdout.join("").split("\n").length).toBe(501);
  }
});

test("Java continues after a client leaves an endless loop", async () => {
  const language = "java";
  await interpreter().runCode("int kept = 4;", { language });
  const loop = interpreter().runCode("while (true) Thread.sleep(10);", { language, timeoutMs: 2_000 });
  await expect(loop).rejects.toThrow();
  expect((await interpreter().runCode("kept", { language })).text).toBe("4");
});

describe.skipIf(!LONG)("the template code-interpreter-full", () => {
  const server = templateServer("code-interpreter-full");

  test("works under its own name", async () => {
    const sandbox = await Sandbox.create("code-interpreter-full", server().options);
    expect((await sandbox.runCode("1 + 1")).text).toBe("2");
    expect((await sandbox.runCode("1 + 1", { language: "r" })).results[0]?.text).toBe("[1] 2");
    await sandbox.kill();
  });
});
