/** Programs that cannot run in a real sandbox, and the error messages of its helper, loader and shell. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { startProcess } from "../../support/runtime-calls.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
});

async function start(user: string, process: object, more: object = {}) {
  const { end, stderr, pty, error } = await startProcess(server(), sandbox.sandboxId, user, process, more);
  return { exitCode: end?.exitCode, output: stderr + pty, error };
}

test.each(["user", "root"])("a program that %s cannot execute fails with a clear error", async (user) => {
  await sandbox.commands.run("printf '#!/no/shell\\n' > script; printf hi > text; chmod 755 script; chmod 644 text");
  const missing = '"no-such-program" could not be executed: there is no such program in the directories of its PATH';
  expect(await start(user, { cmd: "no-such-program" })).toMatchObject({ exitCode: 127, output: `${missing}\n` });
  const pty = { size: { cols: 80, rows: 24 } };
  expect(await start(user, { cmd: "no-such-program" }, { pty })).toMatchObject({
    exitCode: 127,
    output: `${missing}\r\n`,
  });
  const at = "/home/user";
  expect(await start(user, { cmd: `${at}/script` })).toMatchObject({
    exitCode: 127,
    output: `"${at}/script" could not be executed: the interpreter "/no/shell" in the first line of it is not there\n`,
  });
  expect(await start(user, { cmd: `${at}/text` })).toMatchObject({
    exitCode: 126,
    output: `"${at}/text" could not be executed: the user may not execute it, whose mode is 644\n`,
  });
});

test("the error is the same in every locale", async () => {
  const { output } = await start("user", {
    cmd: "no-such-program",
    envs: { LANG: "de_DE.UTF-8", LC_ALL: "de_DE.UTF-8" },
  });
  expect(output).toStartWith('"no-such-program" could not be executed: ');
});

test("a NUL byte is rejected with the name of its field", async () => {
  const { error } = await start("user", { cmd: "echo", args: ["a\0"] });
  expect(error).toMatchObject({ code: "invalid_argument", message: expect.stringContaining("process.args") });
});
