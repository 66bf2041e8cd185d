/** Runs npm with the environment of the caller, who may have configured a registry, a proxy or certificates. */
import { run } from "../../src/system/command.ts";

const NPM_MS = 1_200_000;

export async function npm(args: readonly string[], cwd: string): Promise<string> {
  const env = Object.fromEntries(Object.entries(process.env).flatMap(([key, value]) => (value ? [[key, value]] : [])));
  return await run(["npm", ...args], { cwd, env, timeoutMs: NPM_MS });
}
