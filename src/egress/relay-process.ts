/** Starts the process of the relay. */
import { join } from "node:path";
import { openFilesMax } from "../system/open-files.ts";
import { bundleProgram, spawnUnprivileged } from "../system/unprivileged-process.ts";
import { RELAY_CONNECTIONS_MAX, RELAY_DATA_MAX_BYTES } from "./limits.ts";

const PROGRAM = join(import.meta.dir, "program/main.ts");
/** For each connection two files and a question for a name. */
const FILES_PER_CONNECTION = 3;
const FILES_OTHER = 256;

/** So many connections the files suffice for that it may open. */
export function relayConnectionsMax(): number {
  return Math.min(RELAY_CONNECTIONS_MAX, Math.floor((openFilesMax() - FILES_OTHER) / FILES_PER_CONNECTION));
}

/** As one file, in a folder of its own below this one that everybody can read. */
export function bundleRelay(folder: string): Promise<string> {
  return bundleProgram(PROGRAM, folder, "relay");
}

export function spawnRelay(program: string, uid: number) {
  const files = Math.min(openFilesMax(), RELAY_CONNECTIONS_MAX * FILES_PER_CONNECTION + FILES_OTHER);
  return spawnUnprivileged({ program, uid, files, dataBytes: RELAY_DATA_MAX_BYTES });
}
