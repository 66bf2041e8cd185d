/**
 * Functions of the C library that neither Bun nor Node has, and the reason when one of them fails. A call blocks the event
 * loop while it runs, so only what is short is called; and nobody checks its arguments, so each caller wraps what it loads.
 */
import { dlopen, type FFIFunction, FFIType, type Pointer, read } from "bun:ffi";
import { getSystemErrorName } from "node:util";

const LIBRARY_NAMES = ["libc.so.6", `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`, "libc.so"];

/** Loads the functions at their first use: a guest that never needs them does not pay for them at its start. */
export function onFirstUse<const Functions extends Record<string, FFIFunction>>(functions: Functions) {
  let loaded: ReturnType<typeof load<Functions>> | undefined;
  return () => {
    loaded ??= load(functions);
    return loaded;
  };
}

function load<const Functions extends Record<string, FFIFunction>>(functions: Functions) {
  let last: unknown;
  for (const name of LIBRARY_NAMES) {
    try {
      return dlopen(name, functions).symbols;
    } catch (thrown) {
      last = thrown;
    }
  }
  throw new Error(`there is no C library under any of the names ${LIBRARY_NAMES.join(", ")}`, { cause: last });
}

type Address = Pointer | bigint | null;
const errorPlace = onFirstUse({ __errno_location: { args: [], returns: FFIType.ptr } });
let errorNumberAt: Address | undefined;

/** To be called before the call whose failure is of interest: the place stays the same for a thread's whole life. */
function placeOfErrorNumber(): Address {
  if (errorNumberAt === undefined) errorNumberAt = errorPlace().__errno_location();
  return errorNumberAt;
}

/**
 * What a call answered, or why it failed, as an error with the system's code. The error number is read with nothing in between
 * that could change it.
 */
export function callResult(name: string, call: () => number): number | SystemError {
  const place = placeOfErrorNumber();
  const result = call();
  if (result >= 0) return result;
  return new SystemError(name, place === null ? 0 : read.i32(place, 0));
}

/** Looks like the errors of node:fs to whoever asks for its code. */
export class SystemError extends Error {
  override readonly name = "SystemError";
  readonly code: string;

  constructor(call: string, errorNumber: number) {
    const code = errorNumber > 0 ? getSystemErrorName(-errorNumber) : "EUNKNOWN";
    super(`${call} failed with ${code}`);
    this.code = code;
  }
}
