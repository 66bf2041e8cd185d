/**
 * Clients that disconnect before the response: the server completes their request, and nothing stays between two
 * states.
 */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { leaveAndFollow } from "../../support/processes/left-command.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf, until } from "../../support/until.ts";

const server = sharedServer();
/** Less than any of these takes. */
const IMPATIENT = { requestTimeoutMs: 20 };
const TRIES = 6;
const DONE_MS = 10_000;

const create = (options = {}) => Sandbox.create({ ...server().options, timeoutMs: 300_000, ...options });
const stateOf = async (sandbox: Sandbox) => (await sandbox.getInfo()).state;

/**
 * Sends a request, disconnects, and waits for `done`. On a busy machine the client may time out before it has sent
 * anything; then it tries again.
 */
async function askAndLeave(ask: () => Promise<unknown>, done: () => Promise<unknown>): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    expect((await refusalOf(ask())).name).toBe("TimeoutError");
    const isDone = done().then(
      () => true,
      () => false,
    );
    if (await Promise.race([isDone, Bun.sleep(DONE_MS).then(() => false)])) return;
  }
  throw new Error("it was asked for and not done");
}

test("a pause completes without its client, and the sandbox resumes", async () => {
  const sandbox = await create();
  const sleeper = await sandbox.commands.run("sleep 300", { background: true, timeoutMs: 0 });
  const cutOff = refusalOf(sleeper.wait());
  await askAndLeave(
    () => sandbox.pause(IMPATIENT),
    () => cutOff,
  );
  await sandbox.connect();
  expect((await sandbox.commands.list()).map(({ pid }) => pid)).toContain(sleeper.pid);
  await sandbox.kill();
});

test("a resume completes without its client", async () => {
  const sandbox = await create();
  await sandbox.pause();
  await askAndLeave(
    () => sandbox.connect(IMPATIENT),
    () => until("it runs", async () => (await stateOf(sandbox)) === "running", DONE_MS),
  );
  expect((await sandbox.commands.run("echo here")).stdout).toBe("here\n");
  await sandbox.kill();
});

test("a fork completes without its client, and its copies end at their timeout", async () => {
  const metadata = { family: "impatient" };
  const sandbox = await create({ metadata });
  const family = () => Sandbox.list({ ...server().options, query: { metadata } }).nextItems();
  await askAndLeave(
    () => sandbox.fork({ ...IMPATIENT, timeoutMs: 5_000 }),
    () => until("the copy is listed", async () => (await family()).length === 2, DONE_MS),
  );
  await until("the copy has ended", async () => (await family()).length === 1);
  expect((await sandbox.commands.run("echo goes on")).stdout).toBe("goes on\n");
  await sandbox.kill();
});

test("a command runs on when its client disconnects, and clients can follow it again", async () => {
  const sandbox = await create();
  await leaveAndFollow(sandbox);
  await sandbox.kill();
});

test("a command's timeout stops while its sandbox is paused", async () => {
  const sandbox = await create();
  const command = await sandbox.commands.run("sleep 300", { background: true, timeoutMs: 6_000 });
  const followed = refusalOf(command.wait());
  await sandbox.pause();
  await followed;
  await Bun.sleep(6_500);
  await sandbox.connect();
  const isListed = async () => (await sandbox.commands.list()).some(({ pid }) => pid === command.pid);
  expect(await isListed()).toBe(true);
  await until("what was left of its time is over", async () => !(await isListed()));
  await sandbox.kill();
});
