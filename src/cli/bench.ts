/**
 * `sandlot bench` and `sandlot trace`: make sure that everything is there, then hand over to a program that measures on
 * a server of its own.
 */
import { join } from "node:path";
import type { Config } from "./config.ts";
import { demandRoot, prepare } from "./prepare.ts";

const PROGRAMS = join(import.meta.dir, "../../bench");

export async function bench(config: Config, args: readonly string[]): Promise<number> {
  return await handOver(config, "main.ts", args);
}

export async function trace(config: Config, args: readonly string[]): Promise<number> {
  return await handOver(config, "trace/main.ts", args);
}

async function handOver(config: Config, program: string, args: readonly string[]): Promise<number> {
  demandRoot();
  await prepare(config);
  const child = Bun.spawn([process.execPath, join(PROGRAMS, program), ...args], {
    env: { ...process.env, SANDLOT_CACHE: config.cacheFolder },
    stdio: ["ignore", "inherit", "inherit"],
  });
  // It cleans up before it ends, and this process follows. A terminal sends Ctrl-C to both.
  process.on("SIGINT", () => undefined);
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  return await child.exited;
}
