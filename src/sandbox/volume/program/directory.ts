/** Reads names in batches: a folder may have millions. Names are bytes, and not all are valid text. */
import { FFIType } from "bun:ffi";
import { closeSync, constants, openSync } from "node:fs";
import { onFirstUse, pointerTo, requireResult } from "../../../base/c-library.ts";

const CONTENT_NAMES_BYTES = 64 * 1024;

const libc = onFirstUse({
  getdents64: { args: [FFIType.i32, FFIType.ptr, FFIType.u64], returns: FFIType.i64 },
});

/** Layout of `struct linux_dirent64`: length at 16, type at 18, name from 19 to a NUL. */
const LENGTH_AT = 16;
const TYPE_AT = 18;
const NAME_AT = 19;
const FOLDER = 4;

interface Named {
  name: Buffer;
  isFolder: boolean;
}

/** To be called before the chroot, while the library can be loaded. */
export function prepareDirectories(): void {
  libc();
}

export function* namesIn(path: string | Buffer): Generator<Named> {
  const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(CONTENT_NAMES_BYTES);
    for (;;) {
      const bytes = requireResult("getdents64", () => Number(libc().getdents64(fd, pointerTo(buffer), buffer.length)));
      if (bytes === 0) return;
      yield* entriesIn(buffer, bytes);
    }
  } finally {
    closeSync(fd);
  }
}

function* entriesIn(buffer: Buffer, bytes: number): Generator<Named> {
  for (let at = 0; at < bytes; at += buffer.readUInt16LE(at + LENGTH_AT)) {
    const end = buffer.indexOf(0, at + NAME_AT);
    const name = Buffer.from(buffer.subarray(at + NAME_AT, end));
    const shown = name.toString("latin1");
    if (shown === "." || shown === "..") continue;
    yield { name, isFolder: buffer.readUInt8(at + TYPE_AT) === FOLDER };
  }
}

export function below(folder: Buffer, name: Buffer): Buffer {
  return Buffer.concat([folder, Buffer.from("/"), name]);
}
