/**
 * The metadata of a file: its extended attributes under `user.e2b.`, which clients see without that prefix. Writing
 * goes through an open file, so that it cannot end up at whatever else takes the file's name; reading never follows a
 * link.
 */
import { FFIType, ptr } from "bun:ffi";
import { callResult, cString, onFirstUse, SystemError } from "../../base/c-library.ts";
import { logError } from "./log.ts";

/** Programs may have put more at a file than an upload can; what is beyond this is not shown. */
const ENTRY_METADATA_MAX_BYTES = 64 * 1024;

export const METADATA_PREFIX = "user.e2b.";
export type Metadata = Readonly<Record<string, string>>;

/** The kernel's own bounds of a list of names and of one value: what fits in here is never cut. */
const KERNEL_MAX_BYTES = 64 * 1024;
const UNSUPPORTED = new Set(["EOPNOTSUPP", "ENOTSUP", "ENOSYS"]);

const library = onFirstUse({
  flistxattr: { args: ["int", "ptr", "usize"], returns: FFIType.i64_fast },
  fgetxattr: { args: ["int", "ptr", "ptr", "usize"], returns: FFIType.i64_fast },
  fsetxattr: { args: ["int", "ptr", "ptr", "usize", "int"], returns: "int" },
  fremovexattr: { args: ["int", "ptr"], returns: "int" },
  llistxattr: { args: ["ptr", "ptr", "usize"], returns: FFIType.i64_fast },
  lgetxattr: { args: ["ptr", "ptr", "ptr", "usize"], returns: FFIType.i64_fast },
});

/** Full names, one character for each byte since nothing says that they are UTF-8, and values. */
type Attributes = Map<string, Uint8Array>;

/** One buffer for all calls: each is over before the next begins. */
let shared: Uint8Array<ArrayBuffer> | undefined;

function buffer(): Uint8Array<ArrayBuffer> {
  shared ??= new Uint8Array(KERNEL_MAX_BYTES);
  return shared;
}

/** How one place is asked: by its path, or through an open file. */
interface Reader {
  list(into: Uint8Array): number;
  get(name: Uint8Array, into: Uint8Array): number;
}

/** What is kept at a regular file or directory. Metadata is an extra: where none can be read, there is none. */
export function readMetadata(path: string): Metadata {
  const reader = readerOf(path);
  const names = listNames(reader);
  if (names instanceof SystemError || names.length === 0) return {};
  const readable = [...readValues(reader, names)].flatMap(([name, value]) => {
    const key = utf8(Buffer.from(name.slice(METADATA_PREFIX.length), "latin1"));
    const text = utf8(value);
    return key === undefined || text === undefined ? [] : [[key, text]];
  });
  return Object.fromEntries(readable);
}

/**
 * Makes this the complete set of an open file. Returns false when the file system keeps no attributes; throws the
 * system's error, with the earlier set in place again, when it has no room for them.
 */
export function replaceMetadata(fd: number, metadata: Metadata): boolean {
  const reader = readerOf(fd);
  const names = listNames(reader);
  if (names instanceof SystemError) return unsupported(names);
  const earlier = readValues(reader, names);
  const wanted: Attributes = new Map(
    Object.entries(metadata).map(([key, value]) => [METADATA_PREFIX + key, Buffer.from(value)]),
  );
  // Removed first: the new set may need the room of the old one.
  const failure = removeAll(fd, names) ?? setAll(fd, wanted);
  if (failure === undefined) return true;
  putBack(fd, earlier, wanted);
  return unsupported(failure);
}

function unsupported(failure: SystemError): false {
  if (UNSUPPORTED.has(failure.code)) return false;
  throw failure;
}

function putBack(fd: number, earlier: Attributes, half: Attributes): void {
  removeAll(fd, half.keys());
  const failure = setAll(fd, earlier);
  if (failure !== undefined) logError("the earlier metadata of a file could not be put back", failure);
}

function readerOf(place: string | number): Reader {
  const { flistxattr, fgetxattr, llistxattr, lgetxattr } = library();
  if (typeof place === "number") {
    return {
      list: (into) => Number(flistxattr(place, ptr(into), into.length)),
      get: (name, into) => Number(fgetxattr(place, ptr(name), ptr(into), into.length)),
    };
  }
  const path = cString(place, "utf8");
  return {
    list: (into) => Number(llistxattr(ptr(path), ptr(into), into.length)),
    get: (name, into) => Number(lgetxattr(ptr(path), ptr(name), ptr(into), into.length)),
  };
}

function listNames(reader: Reader): string[] | SystemError {
  const into = buffer();
  const length = callResult("listing extended attributes", () => reader.list(into));
  if (length instanceof SystemError) return length;
  const names = Buffer.from(into.subarray(0, length)).toString("latin1").split("\0");
  return names.filter((name) => name.startsWith(METADATA_PREFIX));
}

function readValues(reader: Reader, names: readonly string[]): Attributes {
  const into = buffer();
  const values: Attributes = new Map();
  let total = 0;
  for (const name of names) {
    const size = callResult("reading an extended attribute", () => reader.get(cString(name, "latin1"), into));
    // Somebody removed it since it was listed.
    if (size instanceof SystemError) continue;
    total += name.length + size;
    if (total > ENTRY_METADATA_MAX_BYTES) break;
    values.set(name, into.slice(0, size));
  }
  return values;
}

function setAll(fd: number, attributes: Attributes): SystemError | undefined {
  for (const [name, value] of attributes) {
    const place = cString(name, "latin1");
    const content = value.length === 0 ? null : ptr(value);
    const result = callResult("setting an extended attribute", () =>
      library().fsetxattr(fd, ptr(place), content, value.length, 0),
    );
    if (result instanceof SystemError) return result;
  }
  return undefined;
}

function removeAll(fd: number, names: Iterable<string>): SystemError | undefined {
  let failure: SystemError | undefined;
  for (const name of names) {
    const place = cString(name, "latin1");
    const result = callResult("removing an extended attribute", () => library().fremovexattr(fd, ptr(place)));
    if (result instanceof SystemError && result.code !== "ENODATA") failure ??= result;
  }
  return failure;
}

function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // Not text, so nothing that a client could be shown.
    return undefined;
  }
}
