/**
 * The files that processes in a memory image have open, as CRIU keeps them. CRIU refuses to restore a file of another
 * size than it had, also one that has grown meanwhile, which on a volume is nothing unusual; so the sizes in it can be
 * replaced.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { OpenFile } from "../../runtime.ts";
import { encodeVarint, fieldsOf, messagesIn, numberIn, withFields, withMessages } from "./protobuf-fields.ts";

export const FILES_IMAGE = "files.img";
const REMAPS_IMAGE = "remap-fpath.img";

/** Numbers of the fields in a message about a file, and in what it says of a regular one or a folder. */
const REGULAR = 3;
const ID = 1;
const NAME = 6;
const SIZE = 8;
/** In a message about a file that has lost its name: whose it was, and where its content is. */
const REMAPPED = 1;
const REMAPPED_TO = 2;

interface RegularFile {
  id: number;
  path: string;
  bytes: number | undefined;
}

/** Below one of these folders. One that had no name any more is told of only when its other name was kept instead. */
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

/** The content of `files.img` with these sizes instead, by path. */
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

/** Undefined: it is about a pipe, a socket, or something else that has no path. */
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
