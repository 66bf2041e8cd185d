/** Sandboxes of the interpreter's template behave like any others. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("code-interpreter-v1");

test("sandboxes of the interpreter have the default user, the packages and the template's id", async () => {
  const sandbox = await Sandbox.create("code-interpreter-v1", server().options);
  const { stdout } = await sandbox.commands.run(
    "id -un; pwd; grep TEMPLATE_ID /.e2b; python3 -c 'import numpy, pandas, matplotlib; print(numpy.arange(3).sum())'",
  );
  expect(stdout).toBe("user\n/home/user\nTEMPLATE_ID=sandlotinterpreter00\n3\n");
  await sandbox.kill();
});
