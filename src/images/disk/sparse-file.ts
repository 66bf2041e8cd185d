/** Makes a sparse file of this length, which takes no room. */
import { open } from "node:fs/promises";

export async function makeSparse(path: string, bytes: number): Promise<void> {
  const file = await open(path, "w", 0o600);
  await file.truncate(bytes);
  await file.close();
}
