/** The promise of the README: a new user's script works with the unmodified official client. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { newDataFolder, startServer, type TestServer, tearDownServer } from "../../support/server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer(newDataFolder("first-light"));
});
afterAll(async () => {
  await server.stop();
  await tearDownServer(server.dataFolder);
});

test("the five lines of the banner work", async () => {
  const sandbox = await Sandbox.create(server.options);
  const { stdout } = await sandbox.commands.run("echo hello from $(hostname)");
  expect(stdout).toBe("hello from e2b.local\n");
  expect(await sandbox.kill()).toBe(true);
});
