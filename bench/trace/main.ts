/**
 * `sandlot trace`: does a real create, command, fork, pause or resume, and prints every step of it. The stage is that
 * of the benchmark: a server on a folder of its own, in a network of its own, and the end of both. That server writes
 * down its steps; client.ts asks it, as any client does, and prints them.
 */
import { join } from "node:path";
import { loadConfig } from "../../src/cli/config.ts";
import { prepare } from "../../src/cli/prepare.ts";
import { Fault } from "../../src/contract/fault.ts";
import { makeOuterNetwork, removeStaleNetworks } from "../../src/host/testing/outer-network.ts";
import { BenchServer } from "../bench-server.ts";
import { parseTraceOptions, type TraceOptions } from "./options.ts";

/** What the client is handed. */
export interface TraceTask extends TraceOptions {
  url: string;
  apiKey: string;
  stepsFile: string;
}

const CLIENT = join(import.meta.dir, "client.ts");
const STEPS_FILE = `/var/tmp/sandlot-steps-${process.pid}`;
const INTERRUPTED = 130;

const interruption = new AbortController();
process.on("SIGINT", () => interruption.abort());
process.on("SIGTERM", () => interruption.abort());

try {
  process.exit(await stage(parseTraceOptions(process.argv.slice(2)), interruption.signal));
} catch (thrown) {
  if (interruption.signal.aborted) process.exit(INTERRUPTED);
  console.error(thrown instanceof Fault ? `sandlot trace: ${thrown.message}` : thrown);
  process.exit(1);
}

async function stage(options: TraceOptions, interrupted: AbortSignal): Promise<number> {
  const config = loadConfig(process.env);
  const { cacheFolder } = config;
  await prepare(config);
  await removeStaleNetworks();
  const network = await makeOuterNetwork();
  try {
    await BenchServer.removeStale(network.enter, cacheFolder);
    const settings = { SANDLOT_STEPS_FILE: STEPS_FILE, SANDLOT_READY: options.ready ? "1" : "0" };
    const server = new BenchServer(network.enter, cacheFolder, settings);
    try {
      await server.start(interrupted);
      return await ask(server, options, interrupted);
    } finally {
      await server.remove();
      await Bun.file(STEPS_FILE)
        .delete()
        .catch(() => undefined);
    }
  } finally {
    await network.remove();
  }
}

async function ask(server: BenchServer, options: TraceOptions, interrupted: AbortSignal): Promise<number> {
  const task: TraceTask = { ...options, ...server.address, stepsFile: STEPS_FILE };
  const child = Bun.spawn([...server.enter, process.execPath, CLIENT], {
    // Not as an argument, which everybody on the machine can read.
    stdin: new TextEncoder().encode(JSON.stringify(task)),
    stdout: "inherit",
    stderr: "inherit",
    signal: interrupted,
  });
  const exitCode = await child.exited;
  return interrupted.aborted ? INTERRUPTED : exitCode;
}
