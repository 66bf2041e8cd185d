/**
 * Functions of the C library that neither Bun nor Node offers, and the errno of failed calls. This is the only file
 * that loads a library. A call blocks its thread, so only short calls are made. Arguments are not checked, so each
 * caller wraps the functions that it loads.
 */
import { dlopen, type FFIFunction, FFIType, type Pointer, ptr, read } from "bun:ffi";
import { Fault } from "../contract/fault.ts";

const LIBRARY_NAMES = ["libc.so.6", `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`, "libc.so"];

/** Loads the functions at their first use, so that a program that never needs them starts faster. */
export function onFirstUse<const Functions extends Record<string, FFIFunction>>(functions: Functions) {
  let loaded: ReturnType<typeof load<Functions>> | undefined;
  return () => {
    if (loaded === undefined) {
      // Before the functions: looking for it after a failed call could change errno.
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

/** The address of errno stays the same for a thread's lifetime, and this module is loaded once per thread. */
function placeOfErrorNumber(): Address {
  errorNumberAt ??= load({ __errno_location: { args: [], returns: FFIType.ptr } }).__errno_location();
  return errorNumberAt;
}

/** The errno of the last call. Read it right after the call, with nothing in between. */
export function errorNumber(): number {
  const place = placeOfErrorNumber();
  return place === null ? 0 : read.i32(place, 0);
}

/** The result of a call, or a SystemError when the result is negative. */
export function callResult(name: string, call: () => number): number | SystemError {
  placeOfErrorNumber();
  const result = call();
  return result >= 0 ? result : new SystemError(name, errorNumber());
}

/** Like `callResult`, but throws the SystemError. */
export function requireResult(name: string, call: () => number): number {
  const result = callResult(name, call);
  if (result instanceof SystemError) throw result;
  return result;
}

const O_CLOEXEC = 0o2000000;
const pipes = onFirstUse({ pipe2: { args: ["ptr", "int"], returns: "int" } });

/** A pipe whose ends are closed on exec. Bun's own are sockets, which a program cannot open as /dev/stdout. */
export function openPipe(): { readEnd: number; writeEnd: number } {
  const ends = new Int32Array(2);
  requireResult("making a pipe", () => pipes().pipe2(pointerTo(ends), O_CLOEXEC));
  return { readEnd: ends[0] ?? -1, writeEnd: ends[1] ?? -1 };
}

/** Has a `code`, like the errors of node:fs. */
export class SystemError extends Error {
  override readonly name = "SystemError";
  readonly code: string;

  constructor(call: string, number: number) {
    // Loaded with the first error: node:util is large, and a guest without errors does without it.
    const code = number > 0 ? process.getBuiltinModule("node:util").getSystemErrorName(-number) : "EUNKNOWN";
    super(`${call} failed with ${code}`);
    this.code = code;
  }
}

type Bytes = NodeJS.TypedArray | DataView;

/** More buffers than a call has. */
const HELD_BUFFERS = 16;
const held: Bytes[] = [];
let heldCount = 0;

/**
 * The address of a buffer, for the call that follows. The garbage collector does not know addresses: a buffer that is
 * not used after the call may be freed before it. So the last buffers are held here.
 */
export function pointerTo(buffer: Bytes, offset = 0): Pointer {
  held[heldCount++ % HELD_BUFFERS] = buffer;
  return ptr(buffer, offset);
}

/** A C string, for `pointerTo`. */
export function cString(text: string, encoding: "utf8" | "latin1" = "utf8"): Buffer {
  if (text.includes("\0")) {
    throw new Fault(500, `a text for the kernel contains a NUL byte, where it would end: ${JSON.stringify(text)}`);
  }
  return Buffer.from(`${text}\0`, encoding);
}
