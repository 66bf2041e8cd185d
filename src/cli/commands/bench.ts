/** `sandlot bench` and `sandlot trace`: complete the setup, then run a program that measures on a separate server. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { prepare, requireRoot } from "../prepare.ts";
import type { Config } from "../settings/config.ts";

const PROGRAMS = join(import.meta.dir, "../../../bench");

export async function bench(config: Config, args: readonly string[]): Promise<number> {
  return await handOver(config, "main.ts", args);
}

export async function trace(config: Config, args: readonly string[]): Promise<number> {
  return await handOver(config, "trace/main.ts", args);
}

async function handOver(config: Config, program: string, args: readonly string[]): Promise<number> {
  if (!existsSync(PROGRAMS)) {
    throw new Fault(404, "the npm package has no measuring programs. FIX: use a clone of Sandlot's repository");
  }
  requireRoot();
  await prepare(config);
  const child = Bun.spawn([process.execPath, join(PROGRAMS, program), ...args], {
    env: { ...process.env, SANDLOT_CACHE: config.cacheFolder },
    stdio: ["ignore", "inherit", "inherit"],
  });
  // The child cleans up before it ends, and this process waits for it. A terminal sends Ctrl-C to both.
  process.on("SIGINT", () => undefined);
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  return await child.exited;
}
