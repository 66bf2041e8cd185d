/** Commands that outlive their client, or the time of a follower, and the end of their sandbox. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox, TimeoutError } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = sharedServer();
/** Long enough to inspect the command before its timeout, also on a busy machine. */
const LIMIT_MS = 3_000;
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
});

const isListed = async (pid: number) => (await sandbox.commands.list()).some((process) => process.pid === pid);

test("a command continues without followers, and can be followed again", async () => {
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

test("the timeout of a follower ends only its stream, not the command", async () => {
  const handle = await sandbox.commands.run("read -r _; echo still here", { background: true, stdin: true });
  const following = sandbox.commands.connect(handle.pid, { timeoutMs: LIMIT_MS }).then((follower) => follower.wait());
  expect(await refusalOf(following)).toBeInstanceOf(TimeoutError);
  expect(await isListed(handle.pid)).toBe(true);
  await handle.sendStdin("\n");
  expect((await handle.wait()).stdout).toBe("still here\n");
});

test("a kill of the sandbox ends all followed streams with an error about the sandbox", async () => {
  const doomed = await Sandbox.create(server().options);
  const handle = await doomed.commands.run("exec sleep 300", { background: true });
  await doomed.kill();
  const error = await refusalOf(handle.wait());
  expect(error).toBeInstanceOf(TimeoutError);
  expect(error.message).toContain("sandbox");
});
