/**
 * Functions of the C library that neither Bun nor Node has, and the reason when one of them fails: the one place where
 * a library is loaded. A call blocks its thread while it runs, so only what is short is called; and nobody checks its
 * arguments, so each caller wraps what it loads. For host and guest alone: nobody else has business with the kernel.
 */
import { dlopen, type FFIFunction, FFIType, type Pointer, read } from "bun:ffi";
import { Fault } from "../contract/fault.ts";

const LIBRARY_NAMES = ["libc.so.6", `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`, "libc.so"];

/** Loads the functions at their first use: a program that never needs them does not pay for them at its start. */
export function onFirstUse<const Functions extends Record<string, FFIFunction>>(functions: Functions) {
  let loaded: ReturnType<typeof load<Functions>> | undefined;
  return () => {
    if (loaded === undefined) {
      // Found first: looking for it after a failed call could change what is there.
      placeOfErrorNumber();
      loaded = load(functions);
    }
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
let errorNumberAt: Address | undefined;

/** It stays the same for a thread's whole life, and this module is loaded once for each thread. */
function placeOfErrorNumber(): Address {
  errorNumberAt ??= load({ __errno_location: { args: [], returns: FFIType.ptr } }).__errno_location();
  return errorNumberAt;
}

/** Why the last call failed, as the kernel's number. To be asked right after the call, with nothing in between. */
export function errorNumber(): number {
  const place = placeOfErrorNumber();
  return place === null ? 0 : read.i32(place, 0);
}

/** What a call answered, or why it failed, as an error with the system's code. A negative answer is a failure. */
export function callResult(name: string, call: () => number): number | SystemError {
  placeOfErrorNumber();
  const result = call();
  return result >= 0 ? result : new SystemError(name, errorNumber());
}

/** Looks like the errors of node:fs to whoever asks for its code. */
export class SystemError extends Error {
  override readonly name = "SystemError";
  readonly code: string;

  constructor(call: string, number: number) {
    // Loaded by the first error: it is large, and a guest that meets none goes without it.
    const code = number > 0 ? process.getBuiltinModule("node:util").getSystemErrorName(-number) : "EUNKNOWN";
    super(`${call} failed with ${code}`);
    this.code = code;
  }
}

/** A text as C has it. It must be kept for as long as the call may look at it. */
export function cString(text: string, encoding: "utf8" | "latin1" = "utf8"): Buffer {
  if (text.includes("\0")) {
    throw new Fault(500, `a text for the kernel contains a NUL byte, where it would end: ${JSON.stringify(text)}`);
  }
  return Buffer.from(`${text}\0`, encoding);
}
