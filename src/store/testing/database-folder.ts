/** A folder for a test's databases: in memory if possible, because no test depends on the speed of the disk. */
import { accessSync, constants, statfsSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const IN_MEMORY = "/dev/shm";
/** A container may have less. */
const FREE_MIN_BYTES = 256 * 1024 * 1024;

export async function newDatabaseFolder(prefix: string, freeMinBytes = FREE_MIN_BYTES): Promise<string> {
  return await mkdtemp(join(hasMemory(freeMinBytes) ? IN_MEMORY : tmpdir(), prefix));
}

function hasMemory(freeMinBytes: number): boolean {
  try {
    accessSync(IN_MEMORY, constants.W_OK);
    const { bavail, bsize } = statfsSync(IN_MEMORY);
    return bavail * bsize >= freeMinBytes;
  } catch {
    return false;
  }
}
