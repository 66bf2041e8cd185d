/** Commands with several clients, commands that outlive their client or time out, and many commands at once. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox, TimeoutError } from "e2b";
import { timed } from "../../../src/base/testing/timed.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf, until } from "../../support/until.ts";

const server = sharedServer();
/** Long enough to inspect the command before its timeout, also on a busy machine. */
const LIMIT_MS = 3_000;
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
});

const isListed = async (pid: number) => (await sandbox.commands.list()).some((process) => process.pid === pid);
const isAlive = async (pid: number) =>
  (await sandbox.commands.run(`kill -0 ${pid} 2>/dev/null && echo yes || echo no`, { user: "root" })).stdout ===
  "yes\n";

test("one client leaving takes nothing from the other", async () => {
  const first = await sandbox.commands.run("read -r _; echo after", { background: true, stdin: true });
  const second = await sandbox.commands.connect(first.pid);
  await first.disconnect();
  await second.sendStdin("\n");
  expect((await second.wait()).stdout).toBe("after\n");
});

test("a command goes on when nobody follows it, and can be followed again", async () => {
  const handle = await sandbox.commands.run("while [ ! -e go-on ]; do sleep 0.05; done; echo went on | tee went-on", {
    background: true,
  });
  await handle.disconnect();
  expect(await isListed(handle.pid)).toBe(true);
  const again = await sandbox.commands.connect(handle.pid);
  await sandbox.files.write("go-on", "");
  expect((await again.wait()).stdout).toBe("went on\n");
  expect(await sandbox.files.read("went-on")).toBe("went on\n");
});

test("who comes within half a minute of the end still learns the exit code", async () => {
  const handle = await sandbox.commands.run("exit 7", { background: true });
  await refusalOf(handle.wait());
  const late = await sandbox.commands.connect(handle.pid);
  expect(await refusalOf(late.wait())).toMatchObject({ exitCode: 7, stdout: "" });
});

timed("a command that runs out of time is killed", async () => {
  const handle = await sandbox.commands.run("exec sleep 300", { background: true, timeoutMs: LIMIT_MS });
  expect(await isAlive(handle.pid)).toBe(true);
  expect(await refusalOf(handle.wait())).toBeInstanceOf(TimeoutError);
  await until("the process is gone", async () => !(await isAlive(handle.pid)), 2_000);
  expect(await isListed(handle.pid)).toBe(false);
});

timed("its time runs on when its client has left", async () => {
  const handle = await sandbox.commands.run("exec sleep 300", { background: true, timeoutMs: LIMIT_MS });
  await handle.disconnect();
  expect(await isAlive(handle.pid)).toBe(true);
  await until("the process is gone", async () => !(await isAlive(handle.pid)), LIMIT_MS + 2_000);
});

test("the time of one who only follows ends following, not the command", async () => {
  const handle = await sandbox.commands.run("read -r _; echo still here", { background: true, stdin: true });
  const follower = await sandbox.commands.connect(handle.pid, { timeoutMs: LIMIT_MS });
  expect(await refusalOf(follower.wait())).toBeInstanceOf(TimeoutError);
  expect(await isListed(handle.pid)).toBe(true);
  await handle.sendStdin("\n");
  expect((await handle.wait()).stdout).toBe("still here\n");
});

test("a kill of the sandbox ends what its clients follow, with words about the sandbox", async () => {
  const doomed = await Sandbox.create(server().options);
  const handle = await doomed.commands.run("exec sleep 300", { background: true });
  await doomed.kill();
  const error = await refusalOf(handle.wait());
  expect(error).toBeInstanceOf(TimeoutError);
  expect(error.message).toContain("sandbox");
});
