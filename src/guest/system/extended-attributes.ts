/**
 * File metadata: extended attributes under `user.e2b.`, shown to clients without that prefix. Writes go through an open
 * file, so that they cannot hit another file that takes its name; reads never follow a link.
 */
import { FFIType } from "bun:ffi";
import { callResult, cString, onFirstUse, pointerTo, SystemError } from "../../base/c-library.ts";
import { logError } from "./log.ts";

/** Maximum metadata shown. Programs may store more than an upload can. */
const ENTRY_METADATA_MAX_BYTES = 64 * 1024;

export const METADATA_PREFIX = "user.e2b.";
export type Metadata = Readonly<Record<string, string>>;

/** The kernel's limits for a list of names and for one value, so a buffer of this size never truncates. */
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

/** Full names, with one character per byte because they need not be UTF-8, and values. */
type Attributes = Map<string, Uint8Array>;

/** Shared by all calls: each completes before the next begins. */
const into = new Uint8Array(KERNEL_MAX_BYTES);

/** Reads attributes by path or through an open file. */
interface Reader {
  list(): number;
  get(name: Uint8Array): number;
}

/** Metadata of a regular file or directory. If it cannot be read, the result is empty. */
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

/** False: the file system stores none. Without room, restores the earlier set and throws the system's error. */
export function replaceMetadata(fd: number, metadata: Metadata): boolean {
  const reader = readerOf(fd);
  const names = listNames(reader);
  if (names instanceof SystemError) return unsupported(names);
  const earlier = readValues(reader, names);
  const wanted: Attributes = new Map(
    Object.entries(metadata).map(([key, value]) => [METADATA_PREFIX + key, Buffer.from(value)]),
  );
  // Removes first, because the new set may need the room of the old one.
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
      list: () => Number(flistxattr(place, pointerTo(into), into.length)),
      get: (name) => Number(fgetxattr(place, pointerTo(name), pointerTo(into), into.length)),
    };
  }
  const path = cString(place, "utf8");
  return {
    list: () => Number(llistxattr(pointerTo(path), pointerTo(into), into.length)),
    get: (name) => Number(lgetxattr(pointerTo(path), pointerTo(name), pointerTo(into), into.length)),
  };
}

function listNames(reader: Reader): string[] | SystemError {
  const length = callResult("listing extended attributes", () => reader.list());
  if (length instanceof SystemError) return length;
  const names = Buffer.from(into.subarray(0, length)).toString("latin1").split("\0");
  return names.filter((name) => name.startsWith(METADATA_PREFIX));
}

function readValues(reader: Reader, names: readonly string[]): Attributes {
  const values: Attributes = new Map();
  let total = 0;
  for (const name of names) {
    const size = callResult("reading an extended attribute", () => reader.get(cString(name, "latin1")));
    // Removed by another process since it was listed.
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
    const content = value.length === 0 ? null : pointerTo(value);
    const result = callResult("setting an extended attribute", () =>
      library().fsetxattr(fd, pointerTo(place), content, value.length, 0),
    );
    if (result instanceof SystemError) return result;
  }
  return undefined;
}

function removeAll(fd: number, names: Iterable<string>): SystemError | undefined {
  let failure: SystemError | undefined;
  for (const name of names) {
    const place = cString(name, "latin1");
    const result = callResult("removing an extended attribute", () => library().fremovexattr(fd, pointerTo(place)));
    if (result instanceof SystemError && result.code !== "ENODATA") failure ??= result;
  }
  return failure;
}

function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // Values that are not text cannot be shown to clients.
    return undefined;
  }
}
