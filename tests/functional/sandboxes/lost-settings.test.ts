/** A guest with damaged settings rejects every request until its server sends the settings again by itself. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const folder = foldersOfFile();

/** Root inside spoils the file and ends the guest, which is started again and finds it. */
async function loseSettings(sandbox: Sandbox): Promise<void> {
  const script = "echo spoilt > /run/sandlot/settings.json; kill -9 $PPID";
  await sandbox.commands.run(script, { user: "root" }).catch(() => undefined);
}

/** Sends requests without a token until one with the token succeeds; returns every status of those without. */
async function strangersUntilItWorks(server: TestServer, sandbox: Sandbox): Promise<Set<number>> {
  const statuses = new Set<number>();
  const headers = { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "49983" };
  await until("the sandbox answers to its token", async () => {
    statuses.add((await fetch(`${server.url}/envs`, { headers })).status);
    return sandbox.files.exists("/etc/hostname").catch(() => false);
  });
  return statuses;
}

// Guards against a guest that responds 503 forever.
test("lost tokens and variables are restored within moments, also after a restart of the server", async () => {
  const data = folder("lost-settings");
  let server = await startServer(data, { SANDLOT_READY: "0" });
  const created = await Sandbox.create({ ...server.options, envs: { KEPT: "yes" }, timeoutMs: 600_000 });
  await loseSettings(created);
  const strangers = await strangersUntilItWorks(server, created);
  expect([...strangers].filter((status) => ![401, 502, 503].includes(status))).toEqual([]);
  expect((await created.commands.run("echo $KEPT; whoami")).stdout).toBe("yes\nuser\n");

  await server.stop();
  server = await startServer(data, { SANDLOT_READY: "0" });
  const again = await Sandbox.connect(created.sandboxId, server.options);
  await loseSettings(again);
  expect(
    [...(await strangersUntilItWorks(server, again))].filter((status) => ![401, 502, 503].includes(status)),
  ).toEqual([]);
  expect((await again.commands.run("echo $KEPT; whoami")).stdout).toBe("yes\nuser\n");
  expect(await again.kill()).toBe(true);
  await server.stop();
});
