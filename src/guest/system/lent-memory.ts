/**
 * Memory for what is read and passed on at once. The same is used again and again: new memory for each read is counted
 * by the collector even where it is freed by hand, which made it run twice as often, and comes as pages to be cleared.
 */
import { LENT_MEMORY_BYTES, LENT_MEMORY_KEPT_MAX, LENT_MEMORY_KEPT_MS } from "../limits.ts";
import { discard } from "./garbage.ts";

const kept: ArrayBuffer[] = [];
let letGoTimer: Timer | undefined;

/** At least so many bytes, which have whatever was in them before. */
export function lendMemory(bytes: number): Buffer {
  const memory = bytes <= LENT_MEMORY_BYTES ? kept.pop() : undefined;
  return memory === undefined ? Buffer.allocUnsafeSlow(bytes) : Buffer.from(memory);
}

/** A piece of lent memory that nobody holds any part of any more. It is empty, or somebody else's, afterwards. */
export function giveBack(piece: Uint8Array): void {
  const { buffer } = piece;
  const isKept = buffer.byteLength === LENT_MEMORY_BYTES && buffer instanceof ArrayBuffer;
  if (!isKept || kept.length === LENT_MEMORY_KEPT_MAX) {
    discard(piece);
    return;
  }
  kept.push(buffer);
  // The burst may be over.
  clearTimeout(letGoTimer);
  letGoTimer = setTimeout(() => kept.splice(0).forEach((memory) => void memory.transfer(0)), LENT_MEMORY_KEPT_MS);
}
