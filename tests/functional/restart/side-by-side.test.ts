/**
 * Starting, stopping and teardown: quick the second time, one server per data folder, and no server touches another's.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { timed } from "../../../src/base/testing/timed.ts";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { SETTINGS } from "../../../src/setup/host-changes.ts";
import { attempt } from "../../../src/system/command.ts";
import { census, NOTHING, settledCensus, tagOf } from "../../support/census.ts";
import { startServer, type TestServer, tearDownServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";

const MAIN = `${import.meta.dir}/../../../src/cli/main.ts`;
const SECOND_START_MAX_MS = 3000;
const folder = foldersOfFile();

/** Without settings that are visible only in the machine's own network namespace. */
function settingsNow(): Map<string, number> {
  const files = SETTINGS.map(({ name }) => ({ name, path: `/proc/sys/${name.replaceAll(".", "/")}` }));
  const shown = files.filter(({ path }) => existsSync(path));
  return new Map(shown.map(({ name, path }) => [name, Number(readFileSync(path, "utf8"))]));
}

timed("the second start is ready in under 3 s, has the same key, and prints it into no log", async () => {
  const data = folder("twice");
  const first = await startServer(data);
  await first.stop();
  const begun = performance.now();
  const second = await startServer(data);
  expect(performance.now() - begun).toBeLessThan(SECOND_START_MAX_MS);
  expect(second.apiKey).toBe(first.apiKey);
  for (const server of [first, second]) {
    expect(server.output()).toContain(`export E2B_API_KEY=$(sudo cat ${data}/api-key)`);
    expect(server.output()).not.toContain(server.apiKey);
  }
  expect(second.output()).not.toContain("setting up");
  await second.stop();
});

describe("beside a running server", () => {
  const data = folder("same");
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer(data, { SANDLOT_READY: "0" });
  });

  test("a second server on the same data folder or port fails, and the first runs on", async () => {
    const sandbox = await Sandbox.create(server.options);
    const up = (env: Record<string, string>) => attempt([process.execPath, MAIN, "up"], { env });
    const [sameFolder, samePort] = await Promise.all([
      up(serverEnv(data, { SANDLOT_LISTEN: "127.0.0.1:19999" })),
      up(serverEnv(folder("port"), { SANDLOT_LISTEN: server.url.slice("http://".length) })),
    ]);
    expect(sameFolder.exitCode).toBe(1);
    expect(sameFolder.stderr).toContain(`another server is running on the data folder ${data}`);
    expect(samePort.exitCode).toBe(1);
    expect(samePort.stderr).toContain("FIX: free the port, or choose one with SANDLOT_LISTEN");
    expect((await sandbox.commands.run("echo still here")).stdout).toBe("still here\n");
    await sandbox.kill();
  });

  test("`sandlot down` waits until the data folder is unlocked", async () => {
    await server.crash();
    // As a thread of it does that the kernel has not let go yet.
    const lingers = Bun.spawn(["flock", join(data, "lock"), "sh", "-c", "echo held; sleep 2"], { stdout: "pipe" });
    await lingers.stdout.getReader().read();
    await tearDownServer(data);
    expect(await lingers.exited).toBe(0);
  });
});

test("two servers run side by side, and `sandlot down` of one does not affect the other", async () => {
  const [left, right] = [folder("left"), folder("right")];
  const settingsBefore = settingsNow();
  const one = await startServer(left, { SANDLOT_READY: "0" });
  const two = await startServer(right, { SANDLOT_READY: "0" });
  const inOne = await Sandbox.create(one.options);
  const inTwo = await Sandbox.create({ ...two.options, allowInternetAccess: false });
  const countBefore = await census(right);

  expect((await inOne.commands.run("echo one")).stdout).toBe("one\n");
  // A key of one server opens nothing on the other, and neither knows the other's sandboxes.
  await expect(Sandbox.getInfo(inTwo.sandboxId, one.options)).rejects.toThrow(/not found/i);
  await expect(Sandbox.getInfo(inTwo.sandboxId, { ...two.options, apiKey: one.apiKey })).rejects.toThrow(
    /401|unauthorized|key/i,
  );

  await tearDownServer(left);
  expect(await census(left)).toEqual(NOTHING);
  expect(existsSync(`/run/sandlot/${tagOf(left)}`)).toBe(false);
  expect(await settledCensus(right, countBefore)).toEqual(countBefore);
  expect((await inTwo.commands.run("echo two")).stdout).toBe("two\n");

  await tearDownServer(right);
  expect(await census(right)).toEqual(NOTHING);
  const tables = await attempt(["nft", "list", "tables"]);
  expect(tables.stdout).not.toContain(tagOf(left));
  expect(tables.stdout).not.toContain(tagOf(right));
  expect((await attempt(["ip", "address", "show", "dev", "lo"])).stdout).not.toContain(`sandlot`);
  // Other servers of this test run may still hold the settings; the ones that were low before are not raised for good.
  const settingsAfter = settingsNow();
  for (const [name, before] of settingsBefore) expect(settingsAfter.get(name)).toBeLessThanOrEqual(before);
});
