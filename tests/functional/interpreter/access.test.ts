/** Sandboxes of the interpreter: secured, private, open, and killed while code runs. */
import { expect, test } from "bun:test";
import { Sandbox } from "@e2b/code-interpreter";
import { templateServer } from "../../support/template-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = templateServer("code-interpreter-v1");

test.each([
  ["secured and private", { secure: true, network: { allowPublicTraffic: false } }],
  ["neither secured nor private", { secure: false }],
])("a sandbox that is %s runs code with its variables and contexts", async (_, options) => {
  const envs = { WHOSE: "the sandbox's", OTHER: "kept" };
  const sandbox = await Sandbox.create(Object.assign({ envs, timeoutMs: 300_000 }, options, server().options));
  const shown = "import os\n[os.environ.get(name) for name in ('WHOSE', 'OTHER')]";
  const health = await sandbox.commands.run("curl -s http://0.0.0.0:49999/health; which curl pgrep > /dev/null");
  expect(health).toMatchObject({ stdout: '"OK"', exitCode: 0 });
  expect((await sandbox.runCode(shown, { envs: { WHOSE: "the call's" } })).text).toBe(`["the call's", 'kept']`);
  expect((await sandbox.runCode(shown)).text).toBe(`["the sandbox's", 'kept']`);
  const context = await sandbox.createCodeContext();
  expect((await sandbox.runCode(shown, { context })).text).toBe(`["the sandbox's", 'kept']`);
  expect(await sandbox.listCodeContexts()).toContainEqual(context);
  await sandbox.removeCodeContext(context);
  await sandbox.kill();
});

test("a kill while code runs breaks the stream, and the client reports it", async () => {
  const sandbox = await Sandbox.create(Object.assign({ timeoutMs: 300_000 }, server().options));
  const running = Promise.withResolvers<void>();
  const refusal = refusalOf(
    sandbox.runCode("print('runs')\nimport time\ntime.sleep(600)", { onStdout: () => running.resolve() }),
  );
  await running.promise;
  await sandbox.kill();
  const { name, message } = await refusal;
  expect([name, message]).toEqual([
    "TimeoutError",
    expect.stringContaining("killed while the request was in progress"),
  ]);
});

test("sandboxes of the interpreter have the default user, the packages and the template's id", async () => {
  const sandbox = await Sandbox.create(server().options);
  const { stdout } = await sandbox.commands.run(
    "id -un; pwd; grep TEMPLATE_ID /.e2b; python3 -c 'import numpy, pandas, matplotlib; print(numpy.arange(3).sum())'",
  );
  expect(stdout).toBe("user\n/home/user\nTEMPLATE_ID=sandlotinterpreter00\n3\n");
  await sandbox.kill();
});
