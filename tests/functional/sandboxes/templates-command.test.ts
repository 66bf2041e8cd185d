/** `sandlot templates` beside a running server, whose disks are mounted only in the server's mount namespace. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { attempt } from "../../../src/system/command.ts";
import { sharedServer } from "../../support/shared-server.ts";

const MAIN = `${import.meta.dir}/../../../src/cli/main.ts`;
const server = sharedServer();

async function templates(...args: string[]): Promise<string[]> {
  const command = [process.execPath, MAIN, "templates", ...args];
  const result = await attempt(command, { env: serverEnv(server().dataFolder) });
  expect([result.exitCode, result.stderr]).toEqual([0, ""]);
  return result.stdout.trim().split("\n");
}

test("lists built-in templates, and snapshots with their size on the disk", async () => {
  const sandbox = await Sandbox.create(server().options);
  await sandbox.commands.run("head --bytes 20M /dev/urandom > /home/user/noise && sync");
  await sandbox.createSnapshot({ ...server().options, name: "shown" });
  const lines = await templates();
  expect(lines.find((line) => line.includes("  base  "))).toMatch(/team=\(built in\) {2}builds=1\/1 .* disk=0MB$/);
  const shown = lines.find((line) => line.includes("  default/shown  ")) ?? "";
  expect(shown).toMatch(
    /team=default {2}builds=1\/1 {2}ready=0 {2}wall=\(setting\) {2}started=0 {2}last=never {2}disk=\d+MB$/,
  );
  expect(Number(/disk=(\d+)MB$/.exec(shown)?.[1])).toBeGreaterThanOrEqual(20);
  expect(lines.at(-1)).toMatch(/^all images \d+MB, checkpoints [1-9]\d*MB, layers \d+MB$/);

  const [set = ""] = await templates("ready", "default/shown", "1");
  expect(set).toContain("ready=1");
  await templates("ready", "default/shown", "0");
});
