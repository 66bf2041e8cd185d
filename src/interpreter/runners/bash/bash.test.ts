/** bash for users: cells in one shell. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { LONG } from "../../../base/testing/long.ts";
import { type Kernel, KernelEnded } from "../../kernel.ts";
import { run, runInterrupted } from "../testing/cells.ts";
import { bash } from "./language.ts";

const kernels: Kernel[] = [];
/** For tests that leave it as it was. */
let kernel: Kernel;

beforeAll(async () => {
  kernel = await started();
});

afterAll(async () => {
  await Promise.all(kernels.map((each) => each.kill()));
});

async function started(): Promise<Kernel> {
  const made = await bash().start("/tmp");
  kernels.push(made);
  return made;
}

describe("output", () => {
  test.each<[code: string, stdout: string[]]>([
    ["echo hello", ["hello\n"]],
    ["echo a; echo b; printf c", ["a\n", "b\n", "c"]],
    ["cat <<'END'\n$not a variable\n\nEND", ["$not a variable\n", "\n"]],
    ["printf '\\xff\\xfe\\n'", ["\ufffd\ufffd\n"]],
    ["cat", []],
    ['read -r line; echo "$?:$line"', ["1:\n"]],
    ["echo é | rev", ["é\n"]],
    ["echo one > /dev/stdout", ["one\n"]],
    ["(echo sub) & wait", ["sub\n"]],
    ["echo $0 $#", ["bash 0\n"]],
  ])("%j prints %j", async (code, stdout) => {
    expect(await run(kernel, code)).toMatchObject({ stdout, stderr: [], error: undefined });
  });

  test("of programs is complete before the end", async () => {
    for (let time = 0; time < (LONG ? 500 : 20); time++) {
      const output = await run(kernel, "sh -c 'echo out; echo err >&2'");
      expect(output).toMatchObject({ stdout: ["out\n"], stderr: ["err\n"] });
    }
  });

  test("of errors is separate", async () => {
    expect(await run(kernel, "echo e >&2; echo f > /dev/stderr")).toMatchObject({ stdout: [], stderr: ["e\n", "f\n"] });
  });

  test("may be large, and so may a cell", async () => {
    const { stdout } = await run(kernel, "seq 1 50000");
    // A machine that stalls may send a line in two pieces.
    expect(stdout.join("")).toBe(Array.from({ length: 50_000 }, (_, index) => `${index + 1}\n`).join(""));
    const word = "x".repeat(100_000);
    expect((await run(kernel, `cat <<END\n${word}\nEND\nmissing_command`)).stdout.join("")).toBe(`${word}\n`);
  });

  test("of background jobs belongs to the current cell", async () => {
    const own = await started();
    await run(own, "mkfifo $$.fifo; (read -r word < $$.fifo; echo $word) &");
    expect((await run(own, "echo first")).stdout).toEqual(["first\n"]);
    expect((await run(own, "echo job > $$.fifo; wait; rm $$.fifo")).stdout).toEqual(["job\n"]);
  });
});

describe("errors", () => {
  test.each<[code: string, status: string]>([
    ["false", "1"],
    ["(exit 7)", "7"],
    ["missing_command", "127"],
    ["if then", "2"],
    ["echo 'open", "2"],
    ["exit 3", "3"],
    ["set -e\nfalse\necho not here", "1"],
    ["set -u; echo $missing_variable", "127"],
    ["return 4", "2"],
    ["f() { exit 5; }; f", "5"],
    ["kill -9 $BASHPID & wait $!", "137"],
  ])("%j ends with the status %s", async (code, status) => {
    const own = await started();
    await run(own, "kept=kept; cd /");
    const { error, stdout } = await run(own, code);
    expect(error).toMatchObject({ name: "", value: status });
    expect(stdout).toEqual([]);
    expect((await run(own, "set +u; echo $kept $PWD")).stdout).toEqual(["kept /\n"]);
  });

  test("name the lines of the cell", async () => {
    expect((await run(kernel, "true\n\nmissing_command")).stderr).toEqual([
      "bash: line 3: missing_command: command not found\n",
    ]);
  });

  test("a shell that ends without an error is not an error", async () => {
    expect((await run(kernel, "exit 0")).error).toBeUndefined();
    expect((await run(kernel, "break; echo on")).error).toBeUndefined();
  });
});

test("state is kept between cells", async () => {
  const own = await started();
  await run(
    own,
    'x=1; declare y=2; declare -a list=(3); f() { echo "f:$1"; }; alias; cd /usr; export z=4; shopt -s nullglob',
  );
  const { stdout } = await run(own, "echo $x $y $list $PWD; f a; sh -c 'echo $z'; echo /no-such*");
  expect(stdout).toEqual(["1 2 3 /usr\n", "f:a\n", "4\n", "\n"]);
  await run(own, "false");
  expect((await run(own, "echo $?")).stdout).toEqual(["1\n"]);
});

test("options that end or echo a script are reset after a cell", async () => {
  const own = await started();
  expect((await run(own, "set -ex; echo a")).stderr).toEqual(["+++ echo a\n"]);
  expect(await run(own, "false; echo b")).toMatchObject({ stdout: ["b\n"], stderr: [] });
});

test("cells are counted, and the server's own commands do not change $?", async () => {
  const own = await started();
  expect((await run(own, "false")).count).toBe(1);
  await own.setVariables({ SET_IN_BETWEEN: "1" });
  expect(await run(own, "echo $?")).toMatchObject({ count: 2, stdout: ["1\n"] });
});

test.each([
  "echo 1; while :; do :; done",
  "echo 1; sleep 600; echo not here",
  "echo 1; sleep 600 | cat",
  "echo 1; (while :; do :; done)",
  "f() { echo 1; sleep 600; }; f",
])("an interrupt ends %j and keeps all state", async (code) => {
  const own = await started();
  await run(own, "kept=kept");
  expect(await runInterrupted(own, code)).toMatchObject({ error: { name: "", value: "130" }, stdout: ["1\n"] });
  own.interrupt();
  expect((await run(own, "echo $kept")).stdout).toEqual(["kept\n"]);
  expect((await runInterrupted(own, code)).error).toMatchObject({ value: "130" });
});

test("variables are set and removed", async () => {
  await kernel.setVariables({ ONE: "it's\n$(no) \\", TWO: "2", "not-a-name": "3" });
  await kernel.setVariables({ TWO: null });
  const { stdout } = await run(kernel, 'printf %s "$ONE" | od -An -c; test -v TWO || echo unset; printenv ONE');
  expect(stdout).toContain("unset\n");
  expect(stdout.slice(-2).join("")).toBe("it's\n$(no) \\\n");
});

test("the folder is set", async () => {
  const own = await started();
  await own.setFolder("/usr");
  expect((await run(own, "pwd")).stdout).toEqual(["/usr\n"]);
  await expect(own.setFolder("/no/such 'folder'")).rejects.toMatchObject({ status: 500 });
});

test("the end of the shell ends the kernel", async () => {
  for (const code of ["kill -9 $$", "exec true"]) {
    const own = await started();
    await expect(run(own, code)).rejects.toBeInstanceOf(KernelEnded);
    await own.ended;
  }
});

test("a shell that exited in many cells ends the kernel", async () => {
  const own = await started();
  const leave = async () => {
    for (let count = 0; count < 60; count++) await run(own, "exit 1");
  };
  await expect(leave()).rejects.toBeInstanceOf(KernelEnded);
});
