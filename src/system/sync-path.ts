/** Makes files and folders durable. */
import { open } from "node:fs/promises";

/** Syncs a file, or the names in a folder. */
export async function syncPath(path: string): Promise<void> {
  await using handle = await open(path, "r");
  await handle.sync();
}
