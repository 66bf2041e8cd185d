/**
 * `sandlot trace`: performs a real create, command, fork, pause or resume and prints its steps. It uses the environment
 * of the benchmark: a server on its own folder, in its own network, and their cleanup. The server records its steps;
 * client.ts performs the operations like any client and prints them.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { prepare } from "../../src/cli/prepare.ts";
import { loadConfig } from "../../src/cli/settings/config.ts";
import type { BenchServer } from "../bench-server.ts";
import { perform, runOnStage } from "../stage.ts";
import { parseTraceOptions, type TraceOptions } from "./options.ts";

/** Input of the client. */
export interface TraceTask extends TraceOptions {
  url: string;
  apiKey: string;
  stepsFile: string;
}

const CLIENT = join(import.meta.dir, "client.ts");
const STEPS_FILE = `/var/tmp/sandlot-steps-${process.pid}`;

await perform("sandlot trace", (interrupted) => trace(parseTraceOptions(process.argv.slice(2)), interrupted));

async function trace(options: TraceOptions, interrupted: AbortSignal): Promise<number> {
  const config = loadConfig(process.env);
  await prepare(config);
  const settings = { SANDLOT_STEPS_FILE: STEPS_FILE, SANDLOT_READY: options.ready ? "1" : "0" };
  const taskFor = ({ address }: BenchServer): TraceTask => ({ ...options, ...address, stepsFile: STEPS_FILE });
  try {
    return await runOnStage({ cacheFolder: config.cacheFolder, settings, program: CLIENT, taskFor }, interrupted);
  } finally {
    rmSync(STEPS_FILE, { force: true });
  }
}
