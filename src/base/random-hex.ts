/**
 * Random values as text, by the process's own generator. Not for programs that are copied while they run: see
 * kernel-random.ts.
 */

export function randomHex(bytes: number): string {
  return crypto.getRandomValues(new Uint8Array(bytes)).toHex();
}
