/**
 * Opens pipes. Bun gives sockets to its children instead, and a socket cannot be opened by name: `echo x >/dev/stderr`
 * would fail in every script.
 */
import { ptr } from "bun:ffi";
import { callResult, onFirstUse, SystemError } from "../../base/c-library.ts";

const O_CLOEXEC = 0o2000000;

const library = onFirstUse({ pipe2: { args: ["ptr", "int"], returns: "int" } });

export function openPipe(): { readEnd: number; writeEnd: number } {
  const ends = new Int32Array(2);
  const made = callResult("making a pipe", () => library().pipe2(ptr(ends), O_CLOEXEC));
  if (made instanceof SystemError) throw made;
  return { readEnd: ends[0] ?? -1, writeEnd: ends[1] ?? -1 };
}
