/** Pause, resume and snapshots through the official command line. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { cliOfFile } from "../../support/e2b-cli.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const cli = cliOfFile(server);

test("pause and resume go there and back, with everything that runs", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  const sleeper = await sandbox.commands.run("sleep 1000", { background: true, timeoutMs: 0 });
  const paused = await cli.sandbox(["pause", sandbox.sandboxId]);
  expect(paused).toMatchObject({ exitCode: 0, stderr: "" });
  expect((await sandbox.getInfo()).state).toBe("paused");
  const listed = await cli.sandbox(["list", "--state", "paused", "--format", "json"]);
  expect(listed.stdout).toContain(sandbox.sandboxId);
  const resumed = await cli.sandbox(["resume", sandbox.sandboxId]);
  expect(resumed).toMatchObject({ exitCode: 0, stderr: "" });
  expect((await sandbox.commands.list()).map(({ pid }) => pid)).toContain(sleeper.pid);
  await sandbox.kill();
});

test("snapshots are created, listed and deleted", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  const created = await cli.sandbox(["snapshot", "create", sandbox.sandboxId]);
  expect(created).toMatchObject({ exitCode: 0, stderr: "" });
  const id = /[a-z0-9]{20}:default/.exec(created.stdout)?.[0] ?? "";
  expect(id).not.toBe("");
  expect((await cli.sandbox(["snapshot", "list"])).stdout).toContain(id.split(":")[0] ?? "");
  const copy = await Sandbox.create(id, server().options);
  expect((await copy.commands.run("echo copy")).stdout).toBe("copy\n");
  await copy.kill();
  expect(await cli.sandbox(["snapshot", "delete", id])).toMatchObject({ exitCode: 0 });
  expect((await cli.sandbox(["snapshot", "list"])).stdout).not.toContain(id.split(":")[0] ?? "");
  await sandbox.kill();
});
