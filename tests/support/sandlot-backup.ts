/** Runs `sandlot backup`, `restore` and `verify`. */
import { expect } from "bun:test";
import { serverEnv } from "../../src/cli/testing/server-env.ts";
import { attempt } from "../../src/system/command.ts";

const MAIN = `${import.meta.dir}/../../src/cli/main.ts`;

/** What `Bun.spawn` needs to run it. */
export function backupCommand(dataFolder: string, words: readonly string[], extra: Record<string, string> = {}) {
  const env = serverEnv(dataFolder, { RESTIC_PASSWORD: "secret", ...extra });
  return { argv: [process.execPath, MAIN, ...words], env };
}

export function attemptBackup(dataFolder: string, words: readonly string[], extra: Record<string, string> = {}) {
  const { argv, env } = backupCommand(dataFolder, words, extra);
  return attempt(argv, { env, timeoutMs: null });
}

/** Returns the output of a command that succeeds. */
export async function sandlotBackup(
  dataFolder: string,
  words: readonly string[],
  extra: Record<string, string> = {},
): Promise<string> {
  const { exitCode, stdout, stderr } = await attemptBackup(dataFolder, words, extra);
  expect([exitCode, stderr]).toEqual([0, ""]);
  return stdout;
}
