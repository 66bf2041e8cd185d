/** Starts the relay process. */
import { join } from "node:path";
import { openFilesMax } from "../system/open-files.ts";
import { bundleProgram, spawnUnprivileged } from "../system/unprivileged-process.ts";
import { RELAY_CONNECTIONS_MAX, RELAY_DATA_MAX_BYTES } from "./limits.ts";

const PROGRAM = join(import.meta.dir, "program/main.ts");
/** Two sockets and a DNS query per connection. */
const FILES_PER_CONNECTION = 3;
const FILES_OTHER = 256;

/** The number of connections that the limit on open files allows. */
export function relayConnectionsMax(): number {
  return Math.min(RELAY_CONNECTIONS_MAX, Math.floor((openFilesMax() - FILES_OTHER) / FILES_PER_CONNECTION));
}

/** Bundles the program into one file in a world-readable subfolder. */
export function bundleRelay(folder: string): Promise<string> {
  return bundleProgram(PROGRAM, folder, "relay");
}

export function spawnRelay(program: string, uid: number) {
  const files = Math.min(openFilesMax(), RELAY_CONNECTIONS_MAX * FILES_PER_CONNECTION + FILES_OTHER);
  return spawnUnprivileged({ program, uid, files, dataBytes: RELAY_DATA_MAX_BYTES });
}
