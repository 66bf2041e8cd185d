/** Unsupported requests are rejected with an error that says what was wrong. No option is accepted and ignored. */
import { expect, test } from "bun:test";
import { AuthenticationError, InvalidArgumentError, Sandbox, SandboxError, type SandboxOpts } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = sharedServer();

test("a wrong key is rejected", async () => {
  const sandbox = await Sandbox.create(server().options);
  for (const apiKey of [`e2b_${"0".repeat(40)}`, "not a key"]) {
    const intruder = { ...server().options, apiKey };
    for (const call of [
      () => Sandbox.create(intruder),
      () => Sandbox.list(intruder).nextItems(),
      () => Sandbox.getInfo(sandbox.sandboxId, intruder),
      () => Sandbox.connect(sandbox.sandboxId, intruder),
      () => Sandbox.setTimeout(sandbox.sandboxId, 0, intruder),
      () => Sandbox.kill(sandbox.sandboxId, intruder),
    ]) {
      const error = await refusalOf(call());
      expect(error).toBeInstanceOf(AuthenticationError);
      expect(error.message).not.toContain(server().apiKey);
    }
  }
  expect(await sandbox.isRunning()).toBe(true);
  await sandbox.kill();
});

// A sample; all refusals: src/control/lifecycle/create.test.ts, src/control/routes/network-fields.test.ts and others.
test.each<{ request: string; named: string; options: SandboxOpts }>([
  { request: "a name without a denial", named: "allowOut", options: { network: { allowOut: ["a.test"] } } },
  { request: "an unknown volume", named: "volumeMounts", options: { volumeMounts: { "/mnt/data": "my-volume" } } },
  { request: "a life without an end", named: "timeout", options: { timeoutMs: 2 ** 31 * 1000 } },
])("$request is rejected with the name $named, and no sandbox is created", async ({ named, options }) => {
  const error = await refusalOf(Sandbox.create({ ...server().options, ...options }));
  expect(error).toBeInstanceOf(SandboxError);
  expect(error.message).toStartWith("400: ");
  expect(error.message).toContain(named);
  expect(await Sandbox.list(server().options).nextItems()).toEqual([]);
});

test("a command in a missing or closed folder, or for an unknown user, is refused before it starts", async () => {
  const sandbox = await Sandbox.create(server().options);
  const nowhere = await refusalOf(sandbox.commands.run("true", { cwd: "/no/such/folder" }));
  expect(nowhere).toBeInstanceOf(InvalidArgumentError);
  expect(nowhere.message).toContain("/no/such/folder");
  const closed = await refusalOf(sandbox.commands.run("true", { cwd: "/root" }));
  expect(closed).toBeInstanceOf(InvalidArgumentError);
  expect(closed.message).toContain('"/root" cannot be entered by "user"');
  expect((await sandbox.commands.run("pwd", { cwd: "/root", user: "root" })).stdout).toBe("/root\n");
  const stranger = await refusalOf(sandbox.commands.run("true", { user: "stranger" }));
  expect(stranger).toBeInstanceOf(AuthenticationError);
  expect(stranger.message).toContain("stranger");
  await sandbox.kill();
});
