/** Searches files on disk for texts. It skips holes: a disk of 10 GiB holds a few MiB. */
import { closeSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../../src/base/system-code.ts";
import { dataIn } from "../../src/system/syscalls.ts";

const READ_BYTES = 4 * 1024 * 1024;

/** Files and folders below `root` with one of these texts in their name or content; `isSkipped` gets paths below it. */
export function pathsWith(root: string, texts: readonly string[], isSkipped: (path: string) => boolean): string[] {
  const found: string[] = [];
  const visit = (folder: string) => {
    for (const entry of listed(join(root, folder))) {
      const path = join(folder, entry.name);
      if (isSkipped(path)) continue;
      const isNamed = texts.some((text) => entry.name.includes(text));
      if (isNamed || (entry.isFile() && hasOneOf(join(root, path), texts))) found.push(path);
      if (entry.isDirectory()) visit(path);
    }
  };
  visit("");
  return found;
}

function hasOneOf(path: string, texts: readonly string[]): boolean {
  const words = texts.map((text) => Buffer.from(text));
  /** A text may begin in one piece and end in the next. */
  const overlap = Math.max(...words.map(({ length }) => length)) - 1;
  const buffer = Buffer.alloc(READ_BYTES);
  return (
    gone(() => {
      const fd = openSync(path, "r");
      try {
        for (const [offset, length] of dataIn(fd)) {
          const end = offset + length;
          for (let at = offset; at < end; at += READ_BYTES - overlap) {
            const piece = buffer.subarray(0, readSync(fd, buffer, 0, Math.min(READ_BYTES, end - at), at));
            if (words.some((word) => piece.includes(word))) return true;
          }
        }
        return false;
      } finally {
        closeSync(fd);
      }
    }) ?? false
  );
}

function listed(folder: string) {
  return gone(() => readdirSync(folder, { withFileTypes: true })) ?? [];
}

/** Undefined: the file or folder is gone. */
function gone<Result>(work: () => Result): Result | undefined {
  try {
    return work();
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
