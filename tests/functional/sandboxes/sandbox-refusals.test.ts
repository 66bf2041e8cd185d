/** Unsupported requests are refused with an error that says what was wrong. No option is accepted and ignored. */
import { expect, test } from "bun:test";
import {
  AuthenticationError,
  InvalidArgumentError,
  Sandbox,
  SandboxError,
  SandboxNotFoundError,
  type SandboxOpts,
} from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = sharedServer();
const NOBODY = "i00000000000000000000";

test("a wrong key opens nothing", async () => {
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

test("a request without a key is answered 401 with a code in its body", async () => {
  const answer = await fetch(`${server().url}/v2/sandboxes`);
  expect(answer.status).toBe(401);
  expect(await answer.json()).toEqual({ code: 401, message: expect.any(String) });
});

test("a sandbox that does not exist is not found by any call, and a kill says so without an error", async () => {
  const { options } = server();
  expect(await refusalOf(Sandbox.getInfo(NOBODY, options))).toBeInstanceOf(SandboxNotFoundError);
  expect(await refusalOf(Sandbox.connect(NOBODY, options))).toBeInstanceOf(SandboxNotFoundError);
  expect(await refusalOf(Sandbox.setTimeout(NOBODY, 1000, options))).toBeInstanceOf(SandboxNotFoundError);
  expect(await Sandbox.kill(NOBODY, options)).toBe(false);
});

test("an unknown template is 404 and named", async () => {
  for (const [template, named] of [
    ["no-such-template", "no-such-template"],
    ["base:no-such-tag", "no-such-tag"],
    ["no-such-team/base", "no-such-team/base"],
  ] as const) {
    const error = await refusalOf(Sandbox.create(template, server().options));
    expect(error).toBeInstanceOf(SandboxError);
    expect(error.message).toStartWith("404: ");
    expect(error.message).toContain(named);
  }
});

test("options that ask for nothing are never refused", async () => {
  const sandbox = await Sandbox.create({
    ...server().options,
    metadata: {},
    envs: {},
    network: {},
    volumeMounts: {},
    lifecycle: { onTimeout: "kill", autoResume: false },
    allowInternetAccess: true,
  });
  expect((await sandbox.getInfo()).allowInternetAccess).toBe(true);
  await sandbox.kill();
});

// A sample; all refusals: src/control/lifecycle/create.test.ts, src/control/routes/network-fields.test.ts and others.
test.each<{ asked: string; named: string; options: SandboxOpts }>([
  { asked: "a name without a denial", named: "allowOut", options: { network: { allowOut: ["a.test"] } } },
  { asked: "an unknown volume", named: "volumeMounts", options: { volumeMounts: { "/mnt/data": "my-volume" } } },
  { asked: "a life without an end", named: "timeout", options: { timeoutMs: 2 ** 31 * 1000 } },
])("$asked is refused by the name $named, and no sandbox is made", async ({ named, options }) => {
  const error = await refusalOf(Sandbox.create({ ...server().options, ...options }));
  expect(error).toBeInstanceOf(SandboxError);
  expect(error.message).toStartWith("400: ");
  expect(error.message).toContain(named);
  expect(await Sandbox.list(server().options).nextItems()).toEqual([]);
});

test("fields that nobody knows are ignored: clients send extras", async () => {
  const answer = await fetch(`${server().url}/v2/sandboxes`, {
    method: "POST",
    headers: { "X-API-Key": server().apiKey, "Content-Type": "application/json" },
    body: JSON.stringify({ templateID: "base", colour: "blue", lifecycle: { mood: "good" } }),
  });
  expect(answer.status).toBe(201);
  const { sandboxID } = (await answer.json()) as { sandboxID: string };
  expect(await Sandbox.kill(sandboxID, server().options)).toBe(true);
});

test("a command in a folder that does not exist or is closed, or for nobody, is refused before it starts", async () => {
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

test("what is not built yet is refused by its name, and nothing else happens", async () => {
  const { options } = server();
  const sandbox = await Sandbox.create(options);
  const { snapshotId } = await sandbox.createSnapshot({ name: "tags" });
  const rules = { "a.test": [{ transform: { headers: { a: "b" } } }] };
  expect((await refusalOf(sandbox.updateNetwork({ rules }))).message).toContain("does not support rules yet");
  const kept = await Sandbox.listSnapshots(options).nextItems();
  expect(kept.map((snapshot) => snapshot.snapshotId)).toEqual([snapshotId]);
  await sandbox.kill();
});
