/**
 * Writes arriving chunks to a file while the next ones arrive: what comes during one write goes out together with the
 * next, up to a bound, so that small chunks do not cost one system call and one wait each.
 */
import type { FileHandle } from "node:fs/promises";
import { WRITE_BEHIND_MAX_BYTES } from "../../contract/limits.ts";
import { noteGarbage } from "../garbage.ts";

export async function writeBehind(file: FileHandle, content: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const chunk of content) { await writeAll(file, chunk); noteGarbage(chunk.length); }
}
async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length; ) {
    const { bytesWritten } = await file.write(chunk, at, chunk.length - at, null);
    at += bytesWritten;
  }
}
