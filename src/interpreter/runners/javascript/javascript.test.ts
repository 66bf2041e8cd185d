/** JavaScript and TypeScript for users: cells in a runner, which is a Node process. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LONG } from "../../../base/testing/long.ts";
import { until, untilTrue } from "../../../base/testing/until.ts";
import { type Kernel, KernelEnded } from "../../kernel.ts";
import { run, runInterrupted } from "../testing/cells.ts";
import { javascriptRunner } from "../testing/javascript-runner.ts";
import { javascript } from "./language.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "javascript-")));
const kernels: Kernel[] = [];
/** For tests that leave it as it was. */
let kernel: Kernel;

beforeAll(async () => {
  package_("with-default", "index.mjs", "export default 'default'; export const named = 'named'");
  package_("plain", "index.js", "module.exports = { value: 'plain' }");
  writeFileSync(join(folder, "beside.js"), "module.exports = 'beside'");
  kernel = await started("javascript");
});

afterAll(async () => {
  await Promise.all(kernels.map((each) => each.kill()));
  rmSync(folder, { recursive: true, force: true });
});

async function started(language: "javascript" | "typescript"): Promise<Kernel> {
  const made = await javascript(language, await javascriptRunner()).start(folder);
  kernels.push(made);
  return made;
}

function package_(name: string, file: string, source: string): void {
  const place = join(folder, "node_modules", name);
  mkdirSync(place, { recursive: true });
  writeFileSync(
    join(place, "package.json"),
    JSON.stringify({ name, version: "1.0.0", main: file, exports: `./${file}` }),
  );
  writeFileSync(join(place, file), source);
}

describe("results", () => {
  test.each<[code: string, text: string]>([
    ["1 + 1", "2"],
    ["'text'", "'text'"],
    ["[1, { a: [2] }]", "[ 1, { a: [ 2 ] } ]"],
    ["null", "null"],
    ["new Map([[1, 2]])", "Map(1) { 1 => 2 }"],
    ["await Promise.resolve(3)", "3"],
    ["Promise.resolve(4)", "4"],
    ["(async () => 5)()", "5"],
    ["import { sep } from 'path'; sep", "'/'"],
    ["import fs from 'node:fs'; typeof fs.readFileSync", "'function'"],
    ["import first, { named } from 'with-default'; [first, named]", "[ 'default', 'named' ]"],
    ["import plain from 'plain'; plain.value", "'plain'"],
    ["require('plain').value", "'plain'"],
    ["require('./beside.js')", "'beside'"],
    ["(await import('./beside.js')).default", "'beside'"],
    ["process.cwd() === __dirname && import.meta.url.startsWith('file:///')", "true"],
    ["process.version.split('.').length", "3"],
    ["const answer: number = 42; answer", "42"],
    ["const crypto = require('node:crypto'); crypto.randomBytes(2).length", "2"],
    ["'x'.repeat(20000).length", "20000"],
    ["globalThis === this", "true"],
  ])("%j is %s", async (code, text) => {
    expect(await run(kernel, code)).toMatchObject({ results: [text], error: undefined, stderr: [] });
  });

  test.each(["undefined", "const nothing = 1", "console.log('x')", "function f() {}", "void 0", ""])(
    "%j has no result",
    async (code) => {
      expect((await run(kernel, code)).results).toEqual([]);
    },
  );

  test("a long string is complete", async () => {
    expect((await run(kernel, "'x'.repeat(300000)")).results[0]).toHaveLength(300_002);
  });

  test("an object uses its own display method", async () => {
    const output = await run(
      kernel,
      "({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<b>x</b>', 'application/json': { a: 1 } }) })",
    );
    expect(output.bundles).toEqual([{ "text/html": "<b>x</b>", "application/json": { a: 1 } }]);
    expect((await run(kernel, "({ _toPng: () => Uint8Array.of(1, 2) })")).bundles).toEqual([{ "image/png": "AQI=" }]);
    expect((await run(kernel, "$$.html('<i>y</i>'); 1")).bundles).toEqual([
      { "text/html": "<i>y</i>" },
      { "text/plain": "1" },
    ]);
  });
});

describe("names", () => {
  test("are kept, and can be declared again", async () => {
    await run(
      kernel,
      "const a = 1; let b = 2; class C { c = 3 }; function d() { return a }; import { join as e } from 'path'",
    );
    expect((await run(kernel, "[a, b, new C().c, d(), e('x', 'y')]")).results).toEqual(["[ 1, 2, 3, 1, 'x/y' ]"]);
    await run(kernel, "const a = 10; class C {}; let b; function d() { return a + 1 }");
    expect((await run(kernel, "[a, b, new C().c, d()]")).results).toEqual(["[ 10, undefined, undefined, 11 ]"]);
  });

  test("cells are counted, also those with syntax errors", async () => {
    const own = await started("javascript");
    expect((await run(own, "1")).count).toBe(1);
    expect((await run(own, "syntax error")).count).toBe(2);
    expect((await run(own, "1")).count).toBe(3);
  });
});

describe("output", () => {
  test("each call is one piece, in order", async () => {
    const code =
      "console.log('a\\nb', 1); console.info('é'); console.table([{ x: 1 }]); process.stdout.write('no end')";
    const { stdout, results } = await run(kernel, `${code}; undefined`);
    expect(stdout.slice(0, 2)).toEqual(["a\nb 1\n", "é\n"]);
    expect(stdout[2]).toStartWith("┌");
    expect(stdout[2]).toEndWith("┘\n");
    expect(stdout.slice(3)).toEqual(["no end"]);
    expect(results).toEqual([]);
    expect((await run(kernel, "console.error('e'); console.warn('w')")).stderr).toEqual(["e\n", "w\n"]);
  });

  test("output of child programs is in order", async () => {
    const { stdout, stderr } = await run(
      kernel,
      "console.log('before'); require('child_process').execSync('echo child; echo error >/dev/stderr', { stdio: 'inherit' }); console.log('after')",
    );
    expect(stdout).toEqual(["before\n", "child\n", "after\n"]);
    expect(stderr).toEqual(["error\n"]);
  });

  test("the last output arrives before the end", async () => {
    const code = "require('child_process').spawnSync('sh', ['-c', 'echo out; echo err >&2'], { stdio: 'inherit' }); 1";
    for (let time = 0; time < (LONG ? 500 : 20); time++) {
      expect(await run(kernel, code)).toMatchObject({ stdout: ["out\n"], stderr: ["err\n"], results: ["1"] });
    }
  });

  test("it may be large", async () => {
    const { stdout } = await run(
      kernel,
      "for (let i = 0; i < 300; i++) console.log('x'.repeat(65535)); console.log('y'.repeat(3e6))",
    );
    expect(stdout.slice(0, 300).every((text) => text.length === 65_536)).toBeTrue();
    expect(stdout.slice(300).join("")).toHaveLength(3_000_001);
  });

  test("output after the end of a cell belongs to the next", async () => {
    const late = "setTimeout(() => console.log('late'), 1); 1";
    expect((await run(kernel, late)).results).toEqual(["1"]);
    const { stdout } = await run(
      kernel,
      "setTimeout(() => console.log('later'), 50); await new Promise((r) => setTimeout(r, 100))",
    );
    expect(stdout).toContain("later\n");
  });

  test("an ended stream still works", async () => {
    const { stdout } = await run(
      kernel,
      "process.stdout.end('last\\n'); process.stdout.destroy(); console.log('more')",
    );
    expect(stdout).toEqual(["last\n", "more\n"]);
  });
});

describe("errors", () => {
  test.each<[code: string, name: string, value: string]>([
    ["throw new TypeError('bad')", "TypeError", "bad"],
    ["missing()", "ReferenceError", "missing is not defined"],
    ["await Promise.reject(new RangeError('far'))", "RangeError", "far"],
    ["throw 'text'", "Error", "text"],
    ["throw undefined", "Error", "undefined"],
    ["throw new Proxy({}, { get() { throw 1 } })", "Error", "the value that was thrown cannot be shown"],
    ["import x from 'no-such-package'", "Error", `Cannot find package 'no-such-package' imported from ${folder}/`],
    ["x y", "SyntaxError", "Unexpected token"],
    ["({ get x() { throw new Error('getter') } }).x", "Error", "getter"],
  ])("%j is %s: %s", async (code, name, value) => {
    const { error, results } = await run(kernel, code);
    expect(error).toMatchObject({ name, value });
    expect(results).toEqual([]);
  });

  test("name the lines of the cell, and nothing of the runner", async () => {
    const { error, count } = await run(
      kernel,
      "const z = 1\nfunction thrower() {\n  throw new Error('here')\n}\nthrower()",
    );
    expect(error?.traceback).toContain(`at thrower ([cell ${count}]:3:9)`);
    expect(error?.traceback).toContain(`at [cell ${count}]:5:1`);
    expect(error?.traceback).not.toMatch(/runner|node:/);
    const later = await run(kernel, "await 1\ntry { thrower() } catch (caught) { console.log(caught.stack) }");
    expect(later.stdout.join("")).toContain(`[cell ${later.count}]:2:`);
    expect(later.stdout.join("")).not.toMatch(/runner/);
  });

  test("have their members and causes", async () => {
    const { error } = await run(kernel, "require('fs').readFileSync('/no/such/file')");
    expect(error?.traceback).toContain("code: 'ENOENT'");
    expect((await run(kernel, "throw new Error('outer', { cause: new Error('inner') })")).error?.traceback).toContain(
      "inner",
    );
  });

  test("of unhandled rejections are reported, and stop nothing", async () => {
    const { stderr } = await run(
      kernel,
      "Promise.reject(new Error('unhandled')); setTimeout(() => { throw new Error('thrown') }, 0); await new Promise((r) => setTimeout(r, 20)); 1",
    );
    expect(stderr.join("")).toContain("Uncaught Error: unhandled");
    expect(stderr.join("")).toContain("Uncaught Error: thrown");
    expect((await run(kernel, "2")).results).toEqual(["2"]);
  });
});

describe("an interrupt", () => {
  test.each([
    "console.log(1); while (true);",
    "console.log(1); await new Promise(() => {})",
    "console.log(1); await 1; while (true);",
    "console.log(1); while (true) await 1",
    "console.log(1); require('child_process').execSync('sleep 600')",
    "console.log(1); require('child_process').spawnSync('sleep', ['600']); while (true);",
  ])("ends %j and keeps all state", async (code) => {
    await run(kernel, "const kept = 'kept'");
    expect((await runInterrupted(kernel, code)).error).toMatchObject({ name: "Interrupted" });
    expect((await run(kernel, "kept")).results).toEqual(["'kept'"]);
  });

  // Guards against passing on the runner's report unchanged: a child gets the signal before its parent knows.
  test("is reported as such, also if the cell fails because its child was interrupted", async () => {
    const failed = join(folder, "failed");
    const code = `console.log(1); while (!require("fs").existsSync("${failed}")); throw new Error("Command failed")`;
    const errors: string[] = [];
    await kernel.execute(code, (output) => {
      if (output.kind === "error") errors.push(output.name);
      if (output.kind !== "stdout") return;
      kernel.interrupt();
      writeFileSync(failed, "");
    });
    expect(errors).toEqual(["Interrupted"]);
    expect((await run(kernel, "throw new Error('own')")).error).toMatchObject({ value: "own" });
  });

  test("also ends processes that a cell which waits has started", async () => {
    const code =
      "const started = require('child_process').spawn('sleep', ['600']); console.log(1); await new Promise(() => {})";
    expect((await runInterrupted(kernel, code)).error).toMatchObject({ name: "Interrupted" });
    const end = "await new Promise((go) => started.exitCode ?? started.signalCode ? go() : started.on('exit', go))";
    expect((await run(kernel, `${end}; started.signalCode`)).results).toEqual(["'SIGINT'"]);
  });

  test("before the loop of a cell does not block the next one", async () => {
    const [wanted, begun] = [join(folder, "wanted"), join(folder, "begun")];
    const code = `setTimeout(() => console.log(1), 50);
      while (!require("fs").existsSync("${wanted}")) await new Promise((go) => setTimeout(go, 10));
      require("fs").writeFileSync("${begun}", "");
      for (;;);`;
    expect((await runInterrupted(kernel, code)).error).toMatchObject({ name: "Interrupted" });
    writeFileSync(wanted, "");
    await until("the loop has begun", () => existsSync(begun));
    expect((await run(kernel, "'heard'")).results).toEqual(["'heard'"]);
  });

  test("between cells does nothing", async () => {
    kernel.interrupt();
    expect((await run(kernel, "1")).results).toEqual(["1"]);
  });
});

test("variables are set and removed", async () => {
  await kernel.setVariables({ ONE: 'it\'s\n"1"', TWO: "2" });
  await kernel.setVariables({ TWO: null });
  expect((await run(kernel, "[process.env.ONE, process.env.TWO]")).results).toEqual([`[ \`it's\\n"1"\`, undefined ]`]);
});

test("the folder is set, and packages come from there", async () => {
  const own = await started("javascript");
  await own.setFolder("/");
  expect((await run(own, "process.cwd()")).results).toEqual(["'/'"]);
  expect((await run(own, "require('plain')")).error?.name).toBe("Error");
  await own.setFolder(folder);
  expect((await run(own, "require('plain').value")).results).toEqual(["'plain'"]);
  await expect(own.setFolder("/no/such/folder")).rejects.toMatchObject({ status: 500 });
});

test("TypeScript has types, enums and separate state", async () => {
  const typescript = await started("typescript");
  await run(typescript, "interface Point { x: number }\nenum Color { Red, Green }\nconst point: Point = { x: 1 }");
  expect((await run(typescript, "point.x + Color.Green as number")).results).toEqual(["2"]);
  const { error } = await run(
    typescript,
    "enum E {\n  A\n}\nfunction f(x: number): never {\n  throw new Error(String(x))\n}\nf(1)",
  );
  expect(error?.traceback).toMatch(/at f \(\[cell \d+\]:5:9\)/);
  expect((await run(typescript, "const x: = 1")).error?.name).toBe("SyntaxError");
  expect((await run(typescript, "function seen(_: unknown) {}\n@seen class Decorated {}")).error).toMatchObject({
    name: "SyntaxError",
    value: "Decorators are not supported",
  });
});

test("random numbers work after new seeds, also by a stored function", async () => {
  const own = await started("javascript");
  const { results } = await run(
    own,
    "const { random } = Math; const seen = new Set(Array.from({ length: 1000 }, random)); seen.size",
  );
  expect(results).toEqual(["1000"]);
  await own.reseed();
  const check =
    "const all = Array.from({ length: 1000 }, random); [all.every((x) => x >= 0 && x < 1 && !seen.has(x)), Math.abs(all.reduce((a, b) => a + b) / 1000 - 0.5) < 0.1]";
  expect((await run(own, check)).results).toEqual(["[ true, true ]"]);
  expect((await run(own, "crypto.randomUUID() !== crypto.randomUUID()")).results).toEqual(["true"]);
});

test("a cell that ends the process returns its output, and the kernel ends", async () => {
  const own = await started("javascript");
  const reported: string[] = [];
  const over = own.execute("console.log('bye'); process.exit(3)", (output) => {
    if (output.kind === "stdout") reported.push(output.text);
  });
  await expect(over).rejects.toBeInstanceOf(KernelEnded);
  expect(reported).toEqual(["bye\n"]);
  await own.ended;
  await expect(run(own, "1")).rejects.toBeInstanceOf(KernelEnded);
});

test("an ended kernel ends its child processes", async () => {
  const own = await started("javascript");
  const { results } = await run(own, "require('child_process').spawn('sleep', ['600']).pid");
  await own.kill();
  await own.kill();
  const pid = Number(results[0]);
  await untilTrue(() => !isRunning(pid));
});

test("a kernel that cannot start reports the reason", async () => {
  const broken = javascript("javascript", { node: "node", runner: "/no/such/runner.mjs" });
  await expect(broken.start(folder)).rejects.toThrow(/did not start.*Cannot find module/s);
});

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
