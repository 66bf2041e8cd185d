/**
 * The benchmark: every figure of ours beside a floor or a peer, measured in the same run on the same machine. It
 * measures only what a client can see, changes nothing in the server, and leaves nothing behind, also when it is
 * interrupted.
 *
 *   main.ts      the stage: a network that leads to web sites of our own alone, a server on a folder of its own, and
 *                the end of both
 *   measure.ts   the measuring itself, inside that network and the server's mount namespace
 *   rows.ts      what is measured; the files of the rows are in rows/, by subject
 *   peers/       what stands beside them
 *   sandboxes/   what rows make on the server: sandboxes, copies, templates
 *   clients/     what rows ask it with
 *   figures/     samples, what is read of the machine, and the report
 */
import { join } from "node:path";
import { loadConfig } from "../src/cli/config.ts";
import { prepare, runscSteps } from "../src/cli/prepare.ts";
import { Fault } from "../src/contract/fault.ts";
import { makeOuterNetwork, removeStaleNetworks } from "../src/host/testing/outer-network.ts";
import { BenchServer } from "./bench-server.ts";
import type { Task } from "./context.ts";
import { type Options, parseOptions } from "./options.ts";
import { installPeers, type Peer } from "./peers/peer.ts";
import { WALL_ROWS } from "./rows/templates/walls.ts";
import { ROWS } from "./rows.ts";

const MEASURE = join(import.meta.dir, "measure.ts");
const INTERRUPTED = 130;

const interruption = new AbortController();
process.on("SIGINT", () => interruption.abort());
process.on("SIGTERM", () => interruption.abort());

try {
  process.exit(await stage(parseOptions(process.argv.slice(2), ROWS), interruption.signal));
} catch (thrown) {
  if (interruption.signal.aborted) process.exit(INTERRUPTED);
  console.error(thrown instanceof Fault ? `sandlot bench: ${thrown.message}` : thrown);
  process.exit(1);
}

async function stage(options: Options, interrupted: AbortSignal): Promise<number> {
  const config = loadConfig(process.env);
  const { cacheFolder } = config;
  // From where packages are fetched, which the network of the benchmark does not reach.
  await prepare(config, needsRunsc(options) ? runscSteps(config) : []);
  const missing = await installPeers(peersOf(options), (line) => console.error(`  ${line}`));
  await removeStaleNetworks();
  const network = await makeOuterNetwork();
  try {
    await BenchServer.removeStale(network.enter, cacheFolder);
    const server = new BenchServer(network.enter, cacheFolder);
    try {
      await server.start(interrupted);
      return await measure(server, { ...options, missing }, interrupted);
    } finally {
      await server.remove();
    }
  } finally {
    await network.remove();
  }
}

function peersOf({ rows }: Options): Peer[] {
  return ROWS.flatMap(({ name, needs }) => (needs !== undefined && rows.includes(name) ? [needs] : []));
}

function needsRunsc({ rows }: Options): boolean {
  return WALL_ROWS.some(({ name }) => rows.includes(name));
}

type Wanted = Options & Pick<Task, "missing">;

async function measure(server: BenchServer, wanted: Wanted, interrupted: AbortSignal): Promise<number> {
  const { folder: dataFolder, cacheFolder } = server;
  const outerNetwork = String(process.pid);
  const task: Task = { ...wanted, ...server.address, dataFolder, cacheFolder, outerNetwork };
  const child = Bun.spawn([...server.enter, process.execPath, MEASURE], {
    // Not as an argument, which everybody on the machine can read.
    stdin: new TextEncoder().encode(JSON.stringify(task)),
    stdout: "inherit",
    stderr: "inherit",
    signal: interrupted,
  });
  const exitCode = await child.exited;
  return interrupted.aborted ? INTERRUPTED : exitCode;
}
