/** Runs a program of `examples` on Node, as a newcomer does, with what the server printed for the shell. */
import { join } from "node:path";
import type { TestServer } from "../server.ts";

const PROJECT = join(import.meta.dir, "../../..");
const PROGRAM_MS = 120_000;

/** The lines that it prints. */
export async function runExample(name: string, { url, apiKey }: TestServer): Promise<string[]> {
  const child = Bun.spawn(["node", join("examples", name)], {
    cwd: PROJECT,
    env: { PATH: process.env.PATH ?? "", E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: apiKey },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: PROGRAM_MS,
  });
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(`examples/${name} failed or did not end:\n${stdout}\n${stderr}`);
  return stdout.trimEnd().split("\n");
}
