/** API keys that a user creates while the server runs, used by the real client. */
import { expect, test } from "bun:test";
import { AuthenticationError, Sandbox } from "e2b";
import { sandlotKeys } from "../../support/sandlot-keys.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const server = sharedServer();

test("an operator's token creates a key, which grants access to the team's sandboxes until it is deleted", async () => {
  const authorization = `Bearer ${await sandlotKeys(server(), "token", "functional test")}`;
  const ask = async (method: string, path: string, headers: Record<string, string>, body?: unknown) => {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(server().url + path, { method, headers, ...sent });
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  };
  const [{ teamID }] = (await ask("GET", "/teams", { Authorization: authorization })).body;
  const member = { Authorization: authorization, "X-Team-ID": teamID };
  const made = (await ask("POST", "/api-keys", member, { name: "agent" })).body;

  const began = Math.floor(Date.now() / 1000);
  const options = { ...server().options, apiKey: made.key };
  const sandbox = await Sandbox.create(options);
  expect((await sandbox.commands.run("echo opened")).stdout).toBe("opened\n");
  const peakPath = `/teams/${teamID}/metrics/max?metric=concurrent_sandboxes&start=${began}`;
  // A create is recorded a moment after its answer.
  await until("the team's count has the sandbox", async () => {
    const { status, body } = await ask("GET", peakPath, { "X-API-Key": made.key });
    expect(status).toBe(200);
    return body.value >= 1;
  });

  expect((await ask("DELETE", `/api-keys/${made.id}`, member)).status).toBe(204);
  await expect(Sandbox.getInfo(sandbox.sandboxId, options)).rejects.toBeInstanceOf(AuthenticationError);
  expect((await Sandbox.getInfo(sandbox.sandboxId, server().options)).state).toBe("running");

  const mine = (await sandlotKeys(server(), "list"))
    .split("\n")
    .filter((line) => /functional test|made by a login/.test(line));
  for (const line of mine) await sandlotKeys(server(), "revoke", line.slice(0, 36));
  expect((await ask("GET", "/api-keys", member)).status).toBe(401);
});
