/** Programs that cannot be executed and texts that the kernel does not accept, sent to a real daemon. */
import { beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, closeSync, copyFileSync, mkdirSync, openSync, writeFileSync } from "node:fs";
import { emptyFolderOf, guestOfFile } from "../testing/guest-of-file.ts";
import { ProcessCalls } from "../testing/process-calls.ts";
import { basic } from "../testing/running-guest.ts";

const guest = await guestOfFile();
const processes = new ProcessCalls(guest);
const home = emptyFolderOf(guest);

const USERS = [
  ["root", {}],
  ["daemon", basic("daemon")],
] as const;

function program(name: string, content: string | Uint8Array, mode = 0o755): string {
  const path = `${home}/${name}`;
  writeFileSync(path, content);
  chmodSync(path, mode);
  return path;
}

/** The beginning of a program for a processor that there is not. */
const FOREIGN = Buffer.concat([
  Buffer.from("\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf0\xf0", "latin1"),
  Buffer.alloc(200),
]);

describe.each(USERS)("run by %s,", (_, headers) => {
  beforeEach(() => {
    chmodSync(guest.folder, 0o755);
    chmodSync(home, 0o755);
  });

  async function failed(cmd: string, pty?: object) {
    const result = await processes.run({ process: { cmd, args: ["x"], cwd: "/" }, ...(pty && { pty }) }, headers);
    expect(result.pid).toBeGreaterThan(0);
    expect(result.error).toBeUndefined();
    return [result.end?.exitCode, result.stderr + result.pty, result.stdout];
  }

  const line = (cmd: string, reason: string) => `${JSON.stringify(cmd)} could not be executed: ${reason}\n`;

  test("a program that is not in PATH", async () => {
    const reason = "there is no such program in the directories of its PATH";
    expect(await failed("no-such-program")).toEqual([127, line("no-such-program", reason), ""]);
  });

  test("a missing file", async () => {
    expect(await failed(`${home}/none`)).toEqual([127, line(`${home}/none`, "there is no such file"), ""]);
  });

  test("a directory", async () => {
    mkdirSync(`${home}/dir`);
    expect(await failed(`${home}/dir`)).toEqual([126, line(`${home}/dir`, "it is a directory"), ""]);
  });

  test("a file that the user may not execute", async () => {
    const path = program("plain", "echo hi", 0o644);
    expect(await failed(path)).toEqual([126, line(path, "the user may not execute it, whose mode is 644"), ""]);
  });

  test("a script with a missing interpreter", async () => {
    const path = program("script", "#!/no/such/shell\r\n");
    const reason = 'the interpreter "/no/such/shell\\r" in the first line of it is not there';
    expect(await failed(path)).toEqual([127, line(path, reason), ""]);
  });

  test.each([
    ["bytes of no known format", Buffer.from([1, 2, 0, 3])],
    ["a program for another processor", FOREIGN],
  ])("%s", async (_what, content) => {
    const path = program("binary", content);
    const [code, reported] = await failed(path);
    expect(code).toBeGreaterThan(0);
    expect(reported).toEndWith(line(path, `it is neither a program for ${process.arch} nor a script`));
  });

  test("a program that is being written", async () => {
    const path = `${home}/busy`;
    copyFileSync("/bin/true", path);
    chmodSync(path, 0o755);
    const fd = openSync(path, "r+");
    expect(await failed(path)).toEqual([126, line(path, "text file busy"), ""]);
    closeSync(fd);
  });

  test("a name that is too long", async () => {
    const [code, reported] = await failed("n".repeat(100_000));
    expect(code).toBe(126);
    expect(reported).toBe(
      `"${"n".repeat(100)}"… (100000 characters) could not be executed: there is no such program in the directories of its PATH\n`,
    );
  });

  test("in a terminal", async () => {
    const [code, reported] = await failed("no-such-program", { size: { cols: 80, rows: 24 } });
    expect([code, reported]).toEqual([
      127,
      line("no-such-program", "there is no such program in the directories of its PATH").replace("\n", "\r\n"),
    ]);
  });

  test("an impossible program name is rejected", async () => {
    const { error } = await processes.run({ process: { cmd: "n".repeat(3_000_000) } }, headers);
    expect(error?.code).toBe("invalid_argument");
    expect(error?.message).toMatch(/^"n{100}"… \(3000000 characters\) could not be started: an argument/);
  });

  test("a script without an interpreter is still run by the shell", async () => {
    expect(await failed(program("script", "echo from the shell; exit 3"))).toEqual([3, "", "from the shell\n"]);
  });

  test("program output that looks like the helper's is passed on", async () => {
    const run = (script: string) =>
      processes.run({ process: { cmd: "/bin/sh", args: ["-c", script], cwd: "/" } }, headers);
    expect((await run("printf 'setpriv: ' >&2; exit 127")).stderr).toBe("setpriv: ");
    expect((await run("printf 'setpriv: failed to execute ' >&2; echo me >&2")).stderr).toBe(
      "setpriv: failed to execute me\n",
    );
  });
});

describe("a Start is refused, by the client's own name of the field, for", () => {
  test.each([
    ["a NUL byte in the command", { cmd: "a\0b" }, 'process.cmd contains a NUL byte: "a\\u0000b"'],
    [
      "one in an argument",
      { cmd: "echo", args: ["a", "b\0"] },
      'argument 2 in process.args contains a NUL byte: "b\\u0000"',
    ],
    ["one in the directory", { cmd: "true", cwd: "/tmp\0" }, 'process.cwd contains a NUL byte: "/tmp\\u0000"'],
    [
      "one in the name of a variable",
      { cmd: "true", envs: { "A\0": "" } },
      'the variable "A\\u0000" in process.envs contains a NUL byte in its name',
    ],
    [
      "one in the value of a variable",
      { cmd: "true", envs: { A: "\0" } },
      'the variable "A" in process.envs contains a NUL byte in its value',
    ],
    ["a variable without a name", { cmd: "true", envs: { "": "x" } }, "process.envs has a variable without a name"],
    [
      "a variable with = in its name",
      { cmd: "true", envs: { "A=B": "x" } },
      'the variable "A=B" in process.envs contains "=" in its name',
    ],
  ])("%s", async (_, process, message) => {
    expect((await processes.run({ process })).error).toEqual({ code: "invalid_argument", message });
  });
});

describe("a NUL byte in a path is refused, by the client's own name of the field, in", () => {
  test.each([
    ["Stat", { path: "/a\0" }, "path"],
    ["MakeDir", { path: "/a\0" }, "path"],
    ["Move", { source: "/a\0", destination: "/b" }, "source"],
    ["Move", { source: "/a", destination: "/b\0" }, "destination"],
  ])("%s (%j)", async (method, message, field) => {
    const response = await guest.call(`filesystem.Filesystem/${method}`, message);
    const { code, message: output } = (await response.json()) as { code: string; message: string };
    expect([response.status, code]).toEqual([400, "invalid_argument"]);
    expect(output).toStartWith(`${field} contains a NUL byte: "/`);
  });

  test("a download", async () => {
    const response = await guest.fetch("/files?path=/a%00");
    expect(response.status).toBe(400);
    expect(((await response.json()) as { message: string }).message).toBe('path contains a NUL byte: "/a\\u0000"');
  });
});
