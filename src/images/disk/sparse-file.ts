/** A file that is as long as it says and takes no room. */
import { open } from "node:fs/promises";

export async function makeSparse(path: string, bytes: number): Promise<void> {
  const file = await open(path, "w", 0o600);
  await file.truncate(bytes);
  await file.close();
}
