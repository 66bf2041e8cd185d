/** The official command line and paused sandboxes: which commands pause, resume, find and end them; snapshots. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { cliOfFile } from "../../support/e2b-cli.ts";
import { LocalTerminal } from "../../support/programs/local-terminal.ts";
import { leftOn, sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const server = sharedServer();
const cli = cliOfFile(server);

async function paused(): Promise<Sandbox> {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  await sandbox.files.write("/home/user/note", "from before");
  await sandbox.pause();
  return sandbox;
}

const stateOf = async (sandbox: Sandbox) => (await sandbox.getInfo()).state;

test("exec resumes a paused sandbox and runs in it", async () => {
  const sandbox = await paused();
  const answer = await cli.sandbox(["exec", sandbox.sandboxId, "cat note"]);
  expect(answer).toEqual({ stdout: "from before", stderr: "", exitCode: 0 });
  expect(await stateOf(sandbox)).toBe("running");
  await sandbox.kill();
});

test("connect resumes a paused sandbox and opens a terminal with the given user, folder and variables", async () => {
  const sandbox = await paused();
  const options = ["-u", "root", "-c", "/tmp", "-e", "COLOUR=green"];
  using terminal = new LocalTerminal(cli.command(["connect", ...options, sandbox.sandboxId]));
  terminal.type("echo $((40 + 2)) $(whoami) $PWD $COLOUR; cat /home/user/note\n");
  await terminal.read(/42 root \/tmp green\s+from before/);
  terminal.type("exit\n");
  expect(await terminal.exited).toBe(0);
  expect(await stateOf(sandbox)).toBe("running");
  await sandbox.kill();
});

test("pause and resume keep running processes, and may be repeated", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  const sleeper = await sandbox.commands.run("sleep 1000", { background: true, timeoutMs: 0 });
  expect(await cli.sandbox(["pause", sandbox.sandboxId])).toMatchObject({ exitCode: 0, stderr: "" });
  const second = await cli.sandbox(["pause", sandbox.sandboxId]);
  expect(second).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("already paused") });
  for (let times = 0; times < (LONG ? 2 : 1); times++) {
    expect(await cli.sandbox(["resume", sandbox.sandboxId])).toMatchObject({ exitCode: 0, stderr: "" });
    expect(await stateOf(sandbox)).toBe("running");
  }
  expect((await sandbox.commands.list()).map(({ pid }) => pid)).toContain(sleeper.pid);
  await sandbox.kill();
});

test("create takes lifecycle options, and info shows them", async () => {
  const options = ["--timeout", "600", "--lifecycle.ontimeout", "pause", "--lifecycle.autoresume"];
  const { stdout } = await cli.sandbox(["create", "-d", "base", ...options]);
  const info = await cli.sandbox(["info", "--format", "json", stdout.trim()]);
  expect(JSON.parse(info.stdout)).toMatchObject({ lifecycle: { onTimeout: "pause", autoResume: true } });
  expect(await Sandbox.kill(stdout.trim(), server().options)).toBe(true);
});

test("logs and metrics show a paused sandbox", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  await until("the first sample is taken", async () => (await sandbox.getMetrics()).length > 0);
  await sandbox.pause();
  const log = await cli.sandbox(["logs", "--format", "json", "--loggers", "sandbox", sandbox.sandboxId]);
  const lines = log.stdout.trim().split("\n");
  expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ event_type: "sandbox.lifecycle.paused" });
  const metrics = await cli.sandbox(["metrics", "--format", "json", sandbox.sandboxId]);
  expect(JSON.parse(metrics.stdout)).toMatchObject({ cpuCount: 2, memTotal: 1024 * 1024 * 1024 });
  await sandbox.kill();
});

test("list and kill --all take only sandboxes in the given state", async () => {
  const asleep = await paused();
  const awake = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  const listed = async (state: string) =>
    JSON.parse((await cli.sandbox(["list", "--state", state, "--format", "json"])).stdout) as { sandboxId: string }[];
  expect((await listed("paused")).map(({ sandboxId }) => sandboxId)).toEqual([asleep.sandboxId]);
  const killed = await cli.sandbox(["kill", "--all", "--state", "paused"]);
  expect(killed).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(asleep.sandboxId) });
  expect((await listed("running,paused")).map(({ sandboxId }) => sandboxId)).toEqual([awake.sandboxId]);
  await awake.kill();
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
  expect((await leftOn(server())).snapshots).toEqual([]);
  await sandbox.kill();
});
