/**
 * Bytes that pass through leave garbage, and JavaScript's collector is in no hurry while the machine has memory left. Inside of
 * a small sandbox the guest's garbage is the user's memory, so it is collected after every so many bytes.
 */
import { GARBAGE_MAX_BYTES } from "../contract/limits.ts";

let sinceLastCollection = 0;

export function noteGarbage(bytes: number): void {
  sinceLastCollection += bytes;
  if (sinceLastCollection < GARBAGE_MAX_BYTES) return;
  sinceLastCollection = 0;
  Bun.gc(true);
}
