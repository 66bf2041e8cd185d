/**
 * `sandlot bench`: make sure that everything is there, then hand over to the benchmark, which is a program of its own.
 */
import { join } from "node:path";
import type { Config } from "./config.ts";
import { demandRoot, prepare } from "./prepare.ts";

const PROGRAM = join(import.meta.dir, "../../bench/main.ts");

export async function bench(config: Config, args: readonly string[]): Promise<number> {
  demandRoot();
  await prepare(config);
  const child = Bun.spawn([process.execPath, PROGRAM, ...args], {
    env: { ...process.env, SANDLOT_CACHE: config.cacheFolder },
    stdio: ["ignore", "inherit", "inherit"],
  });
  // It cleans up before it ends, and this process follows. A terminal sends Ctrl-C to both.
  process.on("SIGINT", () => undefined);
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  return await child.exited;
}
