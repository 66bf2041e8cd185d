/**
 * The files that processes in a CRIU image have open. CRIU refuses to restore a file whose size has changed, even one
 * that has grown, which is common on a volume. So the sizes in the image can be replaced.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { OpenFile } from "../../runtime.ts";
import { encodeVarint, fieldsOf, messagesIn, numberIn, withFields, withMessages } from "./protobuf-fields.ts";

export const FILES_IMAGE = "files.img";
const REMAPS_IMAGE = "remap-fpath.img";

/** Field numbers in a file entry and in a regular file's entry (also for folders). */
const REGULAR = 3;
const ID = 1;
const NAME = 6;
const SIZE = 8;
/** Field numbers in an entry of a deleted file: its id, and the id of its content. */
const REMAPPED = 1;
const REMAPPED_TO = 2;

interface RegularFile {
  id: number;
  path: string;
  bytes: number | undefined;
}

/** Open files below one of these folders. A deleted file is included only if CRIU kept it under another name. */
export function openFilesIn(images: string, folders: readonly string[]): OpenFile[] {
  const files = messagesIn(readFileSync(join(images, FILES_IMAGE))).flatMap((message) => regularFile(message) ?? []);
  const paths = new Map(files.map(({ id, path }) => [id, path]));
  const remaps = remapsIn(images);
  const names = new Map(remaps.map(({ from, to }) => [to, paths.get(from)]));
  const nameless = new Set(remaps.map(({ from }) => from));
  return files
    .filter(({ id, path }) => !nameless.has(id) && folders.some((folder) => isWithin(path, folder)))
    .map(({ id, path, bytes }) => ({ path, shownPath: names.get(id) ?? path, bytes }));
}

export function withSizes(content: Buffer, sizes: ReadonlyMap<string, number>): Buffer {
  return withMessages(content, (message) => {
    const path = regularFile(message)?.path;
    const size = path === undefined ? undefined : sizes.get(path);
    return size === undefined ? message : resized(message, size);
  });
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

/** Undefined for a pipe, a socket, or anything else without a path. */
function regularFile(message: Buffer): RegularFile | undefined {
  const regular = fieldsOf(message).find(({ number }) => number === REGULAR)?.bytes;
  if (regular === undefined) return undefined;
  const fields = fieldsOf(regular);
  const path = fields.find(({ number }) => number === NAME)?.bytes?.toString() ?? "";
  return { id: numberIn(fields, ID) ?? 0, path, bytes: numberIn(fields, SIZE) };
}

function remapsIn(images: string): { from: number; to: number }[] {
  const path = join(images, REMAPS_IMAGE);
  if (!existsSync(path)) return [];
  return messagesIn(readFileSync(path)).map((message) => {
    const fields = fieldsOf(message);
    return { from: numberIn(fields, REMAPPED) ?? 0, to: numberIn(fields, REMAPPED_TO) ?? 0 };
  });
}

function resized(message: Buffer, size: number): Buffer {
  return withFields(message, REGULAR, (regular) => withFields(regular, SIZE, () => encodeVarint(size)));
}
