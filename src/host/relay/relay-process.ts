/**
 * Starts the process of the relay: with an id of its own and no rights, an empty environment, bounds on its memory and
 * its files, and standard input as the only thing it is told by. It ends with the server, however that ends.
 */
import { chmodSync, closeSync, mkdirSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { RELAY_CONNECTIONS_MAX, RELAY_DATA_MAX_BYTES } from "../limits.ts";
import { cannotStart } from "../system/command.ts";
import { openFilesMax } from "../system/open-files.ts";

const PROGRAM = join(import.meta.dir, "program/main.ts");
/** The runtime lies where others than root may have no way to; it comes as an open file instead. */
const RUNTIME = "/proc/self/fd/3";
const NO_RIGHTS = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"];
/** For each connection two files and a question for a name. */
const FILES_PER_CONNECTION = 3;
const FILES_OTHER = 256;

/** So many connections the files suffice for that it may open. */
export function relayConnectionsMax(): number {
  return Math.min(RELAY_CONNECTIONS_MAX, Math.floor((openFilesMax() - FILES_OTHER) / FILES_PER_CONNECTION));
}

/** The program with all that it imports, as one file, in a folder of its own below this one that everybody can read. */
export async function bundleRelay(folder: string): Promise<string> {
  const { outputs } = await Bun.build({ entrypoints: [PROGRAM], target: "bun" });
  const text = await outputs[0]?.text();
  if (text === undefined) throw new Fault(500, "the program of the relay could not be bundled");
  const own = join(folder, "relay");
  mkdirSync(own, { recursive: true });
  chmodSync(own, 0o755);
  const path = join(own, "relay.js");
  writeFileSync(path, text, { mode: 0o644 });
  chmodSync(path, 0o644);
  return path;
}

export function spawnRelay(program: string, uid: number) {
  const files = Math.min(openFilesMax(), RELAY_CONNECTIONS_MAX * FILES_PER_CONNECTION + FILES_OTHER);
  const bounds = [`--nofile=${files}:${files}`, `--data=${RELAY_DATA_MAX_BYTES}`, "--core=0"];
  const identity = [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"];
  const runtime = openSync(process.execPath, "r");
  try {
    return Bun.spawn(
      ["prlimit", ...bounds, "--", "setpriv", ...identity, ...NO_RIGHTS, "--pdeathsig=KILL", "--", RUNTIME, program],
      { stdio: ["pipe", "pipe", "pipe", runtime], env: {}, cwd: "/" },
    );
  } catch (cause) {
    throw cannotStart("prlimit", cause);
  } finally {
    closeSync(runtime);
  }
}
