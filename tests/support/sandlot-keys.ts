/** Runs `sandlot keys …` and other commands beside a running server. */
import { expect } from "bun:test";
import { serverEnv } from "../../src/cli/testing/server-env.ts";
import { attempt } from "../../src/system/command.ts";
import type { TestServer } from "./server.ts";

const MAIN = `${import.meta.dir}/../../src/cli/main.ts`;

export async function sandlotKeys(server: TestServer, ...args: string[]): Promise<string> {
  return await sandlot(server, "keys", ...args);
}

/** Runs the command and returns its output. */
export async function sandlot(server: TestServer, ...args: string[]): Promise<string> {
  const command = [process.execPath, MAIN, ...args];
  const result = await attempt(command, { env: serverEnv(server.dataFolder) });
  expect([result.exitCode, result.stderr]).toEqual([0, ""]);
  return result.stdout.trim();
}
