/** R and Java, which are in the larger template alone. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Sandbox } from "@e2b/code-interpreter";
import { LONG } from "../../support/long.ts";
import { templateServer } from "../../support/template-server.ts";

describe.skipIf(!LONG)("the template code-interpreter-full", () => {
  const server = templateServer("code-interpreter-full");
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await Sandbox.create("code-interpreter-full", server().options);
  });

  afterAll(async () => {
    await sandbox.kill();
  });

  test("has all that the smaller one has", async () => {
    expect((await sandbox.runCode("1 + 1")).text).toBe("2");
    expect((await sandbox.runCode("1 + 1", { language: "js" })).text).toBe("2");
    expect((await sandbox.runCode("echo 2", { language: "bash" })).logs.stdout).toEqual(["2\n"]);
  });

  test("R shows values, errors, output, variables and folders", async () => {
    const language = "r";
    expect((await sandbox.runCode("x <- 1 + 1\nx", { language })).results[0]?.text).toBe("[1] 2");
    expect((await sandbox.runCode("cat('one\\n')", { language })).logs.stdout).toEqual(["one\n"]);
    expect((await sandbox.runCode("message('two')", { language })).logs.stderr.join("")).toContain("two");
    expect((await sandbox.runCode("stop('bad')", { language })).error?.value).toContain("bad");
    expect((await sandbox.runCode("x", { language })).results[0]?.text).toBe("[1] 2");
    const variable = "cat(Sys.getenv('CALL', 'unset'))";
    const envs = { CALL: 'it\'s "1" \\ é' };
    expect((await sandbox.runCode(variable, { language, envs })).logs.stdout.join("")).toBe(envs.CALL);
    expect((await sandbox.runCode(variable, { language })).logs.stdout.join("")).toBe("unset");
    const context = await sandbox.createCodeContext({ language, cwd: "/root" });
    expect((await sandbox.runCode("cat(getwd())", { context })).logs.stdout.join("")).toBe("/root");
  });

  test("R draws different numbers in each fork", async () => {
    const language = "r";
    await sandbox.runCode("runif(1)", { language });
    const forks = (await sandbox.fork({ count: 3 })).filter((fork) => fork instanceof Sandbox);
    const draw = async (each: Sandbox) => (await each.runCode("cat(runif(1))", { language })).logs.stdout.join("");
    const drawn = await Promise.all([sandbox, ...forks].map(draw));
    expect(new Set(drawn).size).toBe(4);
    await Promise.all(forks.map((fork) => fork.kill()));
  });

  test("Java shows values, errors, output, variables and folders", async () => {
    const language = "java";
    expect((await sandbox.runCode("int x = 2;\nx + 1", { language })).text).toBe("3");
    expect((await sandbox.runCode('System.out.println("one")', { language })).logs.stdout).toEqual(["one", "\n"]);
    const { error } = await sandbox.runCode('throw new RuntimeException("bad");', { language });
    expect(error).toMatchObject({ name: "RuntimeException", value: "bad" });
    const variable = 'System.out.print(System.getProperty("CALL"))';
    expect((await sandbox.runCode(variable, { language, envs: { CALL: "it's" } })).logs.stdout).toEqual(["it's"]);
    expect((await sandbox.runCode(variable, { language })).logs.stdout).toEqual(["null"]);
    const context = await sandbox.createCodeContext({ language, cwd: "/root" });
    const folder = 'System.out.print(System.getProperty("user.dir"))';
    expect((await sandbox.runCode(folder, { context })).logs.stdout).toEqual(["/root"]);
  });

  test("Java goes on after a loop that its client has left", async () => {
    const language = "java";
    await sandbox.runCode("int kept = 4;", { language });
    const loop = sandbox.runCode("while (true) Thread.sleep(10);", { language, timeoutMs: 2_000 });
    await expect(loop).rejects.toThrow();
    expect((await sandbox.runCode("kept", { language })).text).toBe("4");
  });
});
