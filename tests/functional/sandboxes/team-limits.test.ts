/** The operator sets a team's limits while the server runs; they apply to the real client at once. */
import { afterEach, expect, test } from "bun:test";
import { RateLimitError, Sandbox, type SandboxOpts } from "e2b";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { attempt } from "../../../src/system/command.ts";
import { serverOfFile } from "../../support/server-of-file.ts";

const MAIN = `${import.meta.dir}/../../../src/cli/main.ts`;
const server = serverOfFile("team-limits", { SANDLOT_READY: "0" });

async function limits(...args: string[]): Promise<string> {
  const command = [process.execPath, MAIN, "limits", ...args];
  const result = await attempt(command, { env: serverEnv(server().dataFolder) });
  expect([result.exitCode, result.stderr]).toEqual([0, ""]);
  return result.stdout.trim();
}

const create = (options: SandboxOpts = {}) => Sandbox.create({ ...server().options, timeoutMs: 300_000, ...options });
const visit = (id: string) =>
  fetch(`${server().url}/`, { headers: { "E2b-Sandbox-Id": id, "E2b-Sandbox-Port": "8000" } });

afterEach(async () => {
  await limits("default", "sandboxes=none", "hours=none", "changes=usual", "blocked=no");
  for (const { sandboxId } of await Sandbox.list(server().options).nextItems()) {
    await Sandbox.kill(sandboxId, server().options);
  }
});

test("no more sandboxes at once than allowed: the client's RateLimitError, and 429 for traffic that would wake one", async () => {
  expect(await limits("default", "sandboxes=2")).toBe(
    "default  sandboxes=2  hours=none  builds=usual  reads=usual  changes=usual  secrets=usual  secretVersions=usual  private=usual  sharedMemory=usual  blocked=no",
  );
  const asleep = await create({ lifecycle: { onTimeout: "pause", autoResume: true } });
  await asleep.pause();
  const [first] = [await create(), await create()];
  const refusal = await create().catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(RateLimitError);
  expect(String(refusal)).toContain("already runs 2 sandboxes");
  // Without this header the client does not wait and try again.
  const headers = { "X-API-Key": server().apiKey };
  const raw = await fetch(`${server().url}/sandboxes`, { method: "POST", headers, body: '{"templateID":"base"}' });
  expect([raw.status, raw.headers.has("retry-after")]).toEqual([429, false]);
  await expect(asleep.connect()).rejects.toBeInstanceOf(RateLimitError);
  const visited = await visit(asleep.sandboxId);
  expect([visited.status, await visited.json()]).toEqual([
    429,
    { sandboxId: asleep.sandboxId, message: expect.stringContaining("limit"), code: 429 },
  ]);
  expect(visited.headers.has("retry-after")).toBe(false);
  expect((await asleep.getInfo()).state).toBe("paused");
  await first.kill();
  // The port has no listener, which only a running sandbox can report.
  expect(await (await visit(asleep.sandboxId)).json()).toMatchObject({ port: 8000, code: 502 });
  expect((await asleep.commands.run("echo awake")).stdout).toBe("awake\n");
});

test("no run longer than allowed", async () => {
  await limits("default", "hours=0.05");
  await expect(create({ timeoutMs: 181_000 })).rejects.toThrow(/400.*at most 180/);
  // Without a word about it, it would be five minutes.
  const sandbox = await Sandbox.create(server().options);
  await sandbox.setTimeout(3_600_000);
  const { startedAt, endAt } = await sandbox.getInfo();
  expect(endAt.getTime() - startedAt.getTime()).toBe(180_000);
});
