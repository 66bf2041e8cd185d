/** A sandbox from create to kill, through the official client. */
import { expect, test } from "bun:test";
import { Sandbox, SandboxNotFoundError } from "e2b";
import { timed } from "../../../src/base/testing/timed.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = sharedServer();
/** How late a sandbox may still be there after its end. */
const EXPIRY_LATE_MAX_MS = 100;

test("by default a sandbox is made from base and ends after five minutes", async () => {
  const before = Date.now();
  const sandbox = await Sandbox.create(server().options);
  const info = await sandbox.getInfo();
  expect(info.sandboxId).toBe(sandbox.sandboxId);
  expect(info.sandboxId).toMatch(/^i[a-z0-9]{20}$/);
  expect(info.templateId).toMatch(/^[a-z0-9]{20}$/);
  expect(info.name).toBe("base");
  expect(info.state).toBe("running");
  expect(info.cpuCount).toBe(2);
  expect(info.memoryMB).toBe(1024);
  expect(info.metadata).toEqual({});
  expect(info.volumeMounts).toEqual([]);
  expect(info.lifecycle).toEqual({ onTimeout: "kill", autoResume: false });
  expect(info.allowInternetAccess).toBeUndefined();
  expect(info.sandboxDomain).toBeUndefined();
  expect(info.envdVersion).toMatch(/^\d+\.\d+\.\d+$/);
  expect(info.startedAt.getTime()).toBeGreaterThanOrEqual(before);
  expect(info.startedAt.getTime()).toBeLessThanOrEqual(Date.now());
  expect(info.endAt.getTime() - info.startedAt.getTime()).toBe(300_000);
  await sandbox.kill();
});

test("a create repeated with its Idempotency-Key returns the same sandbox, until that is killed", async () => {
  const { apiUrl, apiKey } = server().options;
  const headers = { "X-API-Key": apiKey, "Idempotency-Key": crypto.randomUUID() };
  const body = JSON.stringify({ templateID: "base", envVars: { A: "b" } });
  const create = async () => {
    const response = await fetch(`${apiUrl}/v2/sandboxes`, { method: "POST", headers, body });
    return [response.status, await response.json()];
  };
  const [status, first] = await create();
  expect(status).toBe(201);
  expect(await create()).toEqual([201, first]);
  const sandbox = await Sandbox.connect(first.sandboxID, server().options);
  expect((await sandbox.commands.run("echo $A")).stdout).toBe("b\n");
  await sandbox.kill();
  expect((await create())[0]).toBe(409);
});

test("variables given at creation are in every process", async () => {
  const value = "two words, a \"quote\", a $sign, a 'tick' and\na new line";
  const sandbox = await Sandbox.create({ ...server().options, envs: { GREETING: value, EMPTY: "" } });
  const script = 'printf %s "$GREETING"; test -v EMPTY && printf %s "[$EMPTY]" >&2';
  const direct = await sandbox.commands.run(script);
  expect(direct.stdout).toBe(value);
  expect(direct.stderr).toBe("[]");
  const asRoot = await sandbox.commands.run(script, { user: "root" });
  expect(asRoot.stdout).toBe(value);
  await sandbox.kill();
});

test("after a kill the sandbox is gone, and a second kill finds nothing", async () => {
  const sandbox = await Sandbox.create(server().options);
  const { sandboxId } = sandbox;
  expect(await sandbox.isRunning()).toBe(true);
  expect(await sandbox.kill()).toBe(true);
  expect(await sandbox.isRunning()).toBe(false);
  expect(await sandbox.kill()).toBe(false);
  expect(await Sandbox.kill(sandboxId, server().options)).toBe(false);
  expect(await refusalOf(sandbox.getInfo())).toBeInstanceOf(SandboxNotFoundError);
  expect(await refusalOf(sandbox.setTimeout(60_000))).toBeInstanceOf(SandboxNotFoundError);
  expect(await refusalOf(Sandbox.connect(sandboxId, server().options))).toBeInstanceOf(SandboxNotFoundError);
  expect(await refusalOf(sandbox.commands.run("true"))).toBeInstanceOf(SandboxNotFoundError);
  const listed = await Sandbox.list(server().options).nextItems();
  expect(listed.map((entry) => entry.sandboxId)).not.toContain(sandboxId);
});

test("another client connects to the same sandbox by its id", async () => {
  const mine = await Sandbox.create(server().options);
  await mine.files.write("note.txt", "left by the first client");
  const theirs = await Sandbox.connect(mine.sandboxId, server().options);
  expect(await theirs.files.read("note.txt")).toBe("left by the first client");
  expect((await theirs.commands.run("cat note.txt")).stdout).toBe("left by the first client");
  expect(await theirs.kill()).toBe(true);
  expect(await mine.isRunning()).toBe(false);
});

timed("a sandbox is reachable until its end and gone right after, in the API and at its URL", async () => {
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 2_000 });
  await gone(sandbox, (await sandbox.getInfo()).endAt.getTime());
});

test("the first command right after a create never fails", async () => {
  for (let round = 0; round < 20; round += 1) {
    const sandbox = await Sandbox.create(server().options);
    const { stdout, exitCode } = await sandbox.commands.run(`echo round ${round}`);
    expect({ stdout, exitCode }).toEqual({ stdout: `round ${round}\n`, exitCode: 0 });
    expect(await sandbox.kill()).toBe(true);
  }
});

/**
 * Watches `sandbox` end. A yes shows that it existed when the request was sent, a no that it was gone when the response
 * came. So a slow request or response does not fail the test, only a sandbox that ends early or late.
 */
async function gone(sandbox: Sandbox, endMs: number): Promise<void> {
  const isListed = () =>
    sandbox.getInfo().then(
      () => true,
      (error) => {
        if (error instanceof SandboxNotFoundError) return false;
        throw error;
      },
    );
  const watch = async (isThere: () => Promise<boolean>) => {
    for (;;) {
      const startedAt = Date.now();
      if (!(await isThere())) return expect(Date.now()).toBeGreaterThanOrEqual(endMs);
      expect(startedAt).toBeLessThanOrEqual(endMs + EXPIRY_LATE_MAX_MS);
      await Bun.sleep(5);
    }
  };
  await Promise.all([watch(isListed), watch(() => sandbox.isRunning())]);
}
