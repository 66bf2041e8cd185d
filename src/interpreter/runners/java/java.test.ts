/** Java for users, in long runs and only where a JDK is installed. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { LONG } from "../../../base/testing/long.ts";
import { type Kernel, KernelEnded } from "../../kernel.ts";
import { run, runInterrupted } from "../testing/cells.ts";
import { java } from "./language.ts";

const SOURCE = join(import.meta.dir, "../../../../templates/code-interpreter-v1/files/opt/sandlot/java/Runner.java");

test("without its runner there is no Java", () => {
  expect(java("/no/such/Runner.java")).toBeUndefined();
});

describe.skipIf(!LONG || Bun.which("javac") === null)("cells", () => {
  let kernel: Kernel;

  beforeAll(async () => {
    kernel = await started();
  });

  afterAll(async () => {
    await kernel.kill();
  });

  async function started(): Promise<Kernel> {
    const language = java(SOURCE);
    if (language === undefined) throw new Error(`${SOURCE} is not there`);
    return await language.start("/tmp");
  }

  test.each<[code: string, results: string[]]>([
    ["1 + 1", ["2"]],
    ["int x = 5;", []],
    ["int y = 6; y * 2", ["12"]],
    ["class A { int v() { return 3; } }\nnew A().v()", ["3"]],
    ["List.of(1, 2).stream().map(i -> i + 1).toList()", ["[2, 3]"]],
    ["String none = null; none", []],
    ['"é" + (char) 0x20ac', ['"é€"']],
  ])("%j gives %j", async (code, results) => {
    expect(await run(kernel, code)).toMatchObject({ results, error: undefined });
  });

  test("a line without its newline is sent, and the newline after it", async () => {
    const { stdout, stderr } = await run(kernel, 'System.out.println("one"); System.err.print("two");');
    expect(stdout).toEqual(["one", "\n"]);
    expect(stderr).toEqual(["two"]);
    const child = 'new ProcessBuilder("echo", "child").inheritIO().start().waitFor();';
    expect((await run(kernel, child)).stdout).toEqual(["child\n"]);
  });

  test.each<[code: string, name: string, value: RegExp]>([
    ['throw new IllegalStateException("bad");', "IllegalStateException", /^bad$/],
    ['int wrong = "text";', "CompilationError", /incompatible types/],
    ["missing()", "CompilationError", /cannot find symbol/],
    ["int open = (", "CompilationError", /./],
  ])("%j is the error %s", async (code, name, value) => {
    const { error, results } = await run(kernel, code);
    expect(error).toMatchObject({ name, value: expect.stringMatching(value) });
    expect(results).toEqual([]);
  });

  test("variables are properties, and so is the folder", async () => {
    await kernel.setVariables({ ONE: "it's", TWO: "2" });
    await kernel.setVariables({ TWO: null });
    await kernel.setFolder("/usr");
    const code = 'System.getProperty("ONE") + System.getProperty("TWO") + System.getProperty("user.dir")';
    expect((await run(kernel, code)).results).toEqual(['"it\'snull/usr"']);
    await expect(kernel.setFolder("/no/such/folder")).rejects.toMatchObject({ status: 500 });
  });

  test("new seeds are drawn", async () => {
    await kernel.reseed();
    expect((await run(kernel, "Math.random() < 1")).results).toEqual(["true"]);
  });

  test("an interrupt ends a waiting cell", async () => {
    const { error } = await runInterrupted(kernel, "System.out.println(1); while (true) Thread.sleep(10);");
    expect(error).toMatchObject({ name: "Interrupted" });
    expect((await run(kernel, "1 + 2")).results).toEqual(["3"]);
    const child = 'System.out.println(1); if (new ProcessBuilder("sleep", "600").start().waitFor() != 0) ';
    const failing = `${child} throw new IOException("Command failed");`;
    for (let time = 0; time < 5; time++) {
      expect((await runInterrupted(kernel, failing)).error).toMatchObject({ name: "Interrupted" });
    }
  });

  test("the last output of a program arrives before the end", async () => {
    const code = 'int status = new ProcessBuilder("sh", "-c", "echo out; echo err >&2").inheritIO().start().waitFor();';
    for (let time = 0; time < 50; time++) {
      expect(await run(kernel, code)).toMatchObject({ stdout: ["out\n"], stderr: ["err\n"], error: undefined });
    }
  });

  test("a cell that ends the process ends the kernel", async () => {
    const own = await started();
    await expect(run(own, "System.exit(3)")).rejects.toBeInstanceOf(KernelEnded);
  });
});
