/**
 * The benchmark: measures every figure beside a floor or a peer, in the same run on the same machine. It measures only
 * what a client can see, changes nothing in the server, and leaves nothing behind, even when interrupted.
 *
 *   stage.ts     a network with only the benchmark's own web sites, a server in it, and their cleanup
 *   measure.ts   the measurement, inside that network and the server's mount namespace
 *   rows.ts      all rows; their files are in rows/, by subject
 *   peers/       programs to compare with
 *   sandboxes/   what rows make on the server: sandboxes, copies, templates
 *   clients/     clients that rows use
 *   figures/     samples, facts about the machine, and the report
 */
import { join } from "node:path";
import { prepare, runscSteps } from "../src/cli/prepare.ts";
import { loadConfig } from "../src/cli/settings/config.ts";
import type { BenchServer } from "./bench-server.ts";
import type { Task } from "./context.ts";
import { type Options, parseOptions } from "./options.ts";
import { installPeers, type Peer } from "./peers/peer.ts";
import { RUNSC_ROWS } from "./rows/templates/isolation.ts";
import { ROWS } from "./rows.ts";
import { perform, runOnStage } from "./stage.ts";

const MEASURE = join(import.meta.dir, "measure.ts");

await perform("sandlot bench", (interrupted) => bench(parseOptions(process.argv.slice(2), ROWS), interrupted));

async function bench(options: Options, interrupted: AbortSignal): Promise<number> {
  const config = loadConfig(process.env);
  // Fetch packages before entering the benchmark's network, which cannot reach their source.
  await prepare(config, needsRunsc(options) ? runscSteps(config) : []);
  const missing = await installPeers(peersOf(options), (line) => console.error(`  ${line}`));
  const taskFor = ({ folder: dataFolder, cacheFolder, address }: BenchServer): Task => {
    return { ...options, missing, ...address, dataFolder, cacheFolder, outerNetwork: String(process.pid) };
  };
  return await runOnStage({ cacheFolder: config.cacheFolder, program: MEASURE, taskFor }, interrupted);
}

function peersOf({ rows }: Options): Peer[] {
  return ROWS.flatMap(({ name, needs }) => (needs !== undefined && rows.includes(name) ? [needs] : []));
}

function needsRunsc({ rows }: Options): boolean {
  return RUNSC_ROWS.some(({ name }) => rows.includes(name));
}
