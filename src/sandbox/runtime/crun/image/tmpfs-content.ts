/**
 * The content of a sandbox's tmpfs mounts in a CRIU image: one archive each, for which every restore starts tar. Most
 * are nearly empty, and then starting tar takes nearly all of their restore time.
 *
 * So CRIU is told only to mount an empty one. When all others contain only folders, small files, and symbolic links of
 * root, a marker file says so, and a smaller tar that starts in half the time unpacks them. That tar sets a folder's
 * time when it creates the folder, and not again after adding files; so folders are in the archive twice.
 */
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { PACKED_FILE_MAX_BYTES } from "../../../limits.ts";
import {
  encodeField,
  encodeVarint,
  fieldsOf,
  messagesIn,
  numberIn,
  withFields,
  withMessages,
} from "./protobuf-fields.ts";

/** Named by device number. */
const ARCHIVE = /^tmpfs-dev-(\d+)\.tar\.gz\.img$/;
const MOUNTS = /^mountpoints-\d+\.img$/;
/** Our marker file in an image: all its archives are simple. */
const SIMPLE = "sandlot-simple-tmpfs";

/** Field numbers in a mount's entry. */
const KIND = 1;
const DEVICE = 3;
const OPTIONS = 9;
const FILESYSTEM = 14;
/** Mount types: what CRIU treats as a tmpfs, and what it only mounts by name. */
const TMPFS = 5;
const BY_NAME = 16;

/** Mode of a tmpfs that was mounted without a mode option. */
const USUAL_MODE = "1777";
const MODE_OPTION = /(?:^|,)mode=([0-7]+)/;
const OWNER_OPTION = /(?:^|,)uid=(\d+)/;
const GROUP_OPTION = /(?:^|,)gid=(\d+)/;
const MODE_BITS = 0o7777;
const SET_GROUP = 0o2000;

/** An archive consists of blocks: a header for each file, followed by its content. */
const BLOCK = 512;
const FIELDS = {
  name: [0, 100],
  mode: [100, 8],
  owner: [108, 8],
  group: [116, 8],
  size: [124, 12],
  kind: [156, 1],
  /** Fields that only other header formats and sparse files use. */
  others: [345, 167],
} as const satisfies Record<string, readonly [at: number, length: number]>;
const FILE = "0";
const LINK = "2";
const FOLDER = "5";

interface Owned {
  mode: number;
  owner: number;
  group: number;
}

interface Header extends Owned {
  block: Buffer;
  /** Without a trailing slash. */
  path: string;
  kind: string;
}

interface Archive {
  root: Header;
  /** All headers but the root's. */
  headers: Header[];
  /** Offset of the end of the content. */
  end: number;
}

/** To be called when an image was just written. */
export function simplifyTmpfs(images: string): void {
  const names = readdirSync(images);
  const mounts = names.filter((name) => MOUNTS.test(name)).map((name) => join(images, name));
  const fresh = freshFolders(mounts);
  const empty = new Set<number>();
  let areSimple = true;
  for (const name of names) {
    const device = ARCHIVE.exec(name)?.[1];
    if (device === undefined) continue;
    const path = join(images, name);
    const archive = statSync(path).size <= PACKED_FILE_MAX_BYTES ? simpleArchive(readFileSync(path)) : undefined;
    if (archive === undefined) areSimple = false;
    else if (archive.headers.length === 0 && owned(archive.root) === fresh.get(Number(device))) {
      empty.add(Number(device));
      rmSync(path);
    } else writeAt(path, foldersAgain(archive), archive.end);
  }
  if (empty.size > 0) for (const path of mounts) writeAt(path, mountedEmpty(readFileSync(path), empty), 0);
  if (areSimple) writeFileSync(join(images, SIMPLE), "");
  else rmSync(join(images, SIMPLE), { force: true });
}

/** Whether the minimal tar can unpack all archives of an image. */
export function hasSimpleTmpfs(images: string): boolean {
  return existsSync(join(images, SIMPLE));
}

/**
 * The initial mode and owner of each tmpfs root, by device. A tmpfs that is mounted in several places is left to CRIU.
 */
function freshFolders(mounts: readonly string[]): Map<number, string> {
  const fresh = new Map<number, string>();
  const shared = new Set<number>();
  for (const fields of mounts.flatMap((path) => messagesIn(readFileSync(path)).map(fieldsOf))) {
    if (numberIn(fields, KIND) !== TMPFS) continue;
    const device = numberIn(fields, DEVICE) ?? 0;
    const options = fields.find(({ number }) => number === OPTIONS)?.bytes?.toString() ?? "";
    const mode = Number.parseInt(MODE_OPTION.exec(options)?.[1] ?? USUAL_MODE, 8);
    const owner = Number(OWNER_OPTION.exec(options)?.[1] ?? 0);
    const group = Number(GROUP_OPTION.exec(options)?.[1] ?? 0);
    if (fresh.has(device)) shared.add(device);
    fresh.set(device, owned({ mode, owner, group }));
  }
  for (const device of shared) fresh.delete(device);
  return fresh;
}

function owned({ mode, owner, group }: Owned): string {
  return `${(mode & MODE_BITS).toString(8)} ${owner}:${group}`;
}

/** The file's content with these devices marked as empty. */
function mountedEmpty(content: Buffer, devices: ReadonlySet<number>): Buffer {
  return withMessages(content, (message) => {
    const fields = fieldsOf(message);
    if (numberIn(fields, KIND) !== TMPFS || !devices.has(numberIn(fields, DEVICE) ?? 0)) return message;
    const byName = withFields(message, KIND, () => encodeVarint(BY_NAME));
    return Buffer.concat([byName, encodeField(FILESYSTEM, Buffer.from("tmpfs"))]);
  });
}

/** Undefined: the archive is not simple, or not one that GNU tar wrote of one folder. */
function simpleArchive(content: Buffer): Archive | undefined {
  const headers: Header[] = [];
  const folders = new Map<string, Header>();
  for (let at = 0; at + BLOCK <= content.length; ) {
    const block = content.subarray(at, at + BLOCK);
    if (block[0] === 0) {
      const [root, ...others] = headers;
      return root && { root, headers: others, end: at };
    }
    const size = octal(block, "size");
    const header = simpleHeader(block);
    if (size === undefined || header === undefined) return undefined;
    // Everything is below the first folder, and nothing is reached through a link.
    const above = folders.get(header.path.slice(0, Math.max(header.path.lastIndexOf("/"), 0)));
    if (headers.length === 0 ? header.path !== "." : above === undefined) return undefined;
    // The owner of a new link is its creator, and the group may be that of its folder.
    if (header.kind === LINK && (header.owner !== 0 || header.group !== 0 || hasSetGroup(above))) return undefined;
    if (header.kind === FOLDER) folders.set(header.path, header);
    headers.push(header);
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return undefined;
}

function hasSetGroup(folder: Header | undefined): boolean {
  return folder === undefined || (folder.mode & SET_GROUP) !== 0;
}

function simpleHeader(block: Buffer): Header | undefined {
  const [kind, name] = [text(block, "kind"), text(block, "name")];
  const [mode, owner, group] = [octal(block, "mode"), octal(block, "owner"), octal(block, "group")];
  if (kind !== FILE && kind !== LINK && kind !== FOLDER) return undefined;
  if (mode === undefined || owner === undefined || group === undefined) return undefined;
  const [others, length] = FIELDS.others;
  if (block.subarray(others, others + length).some((byte) => byte !== 0)) return undefined;
  const path = kind === FOLDER ? name.replace(/\/$/, "") : name;
  const isBelow = path.split("/").every((part, nth) => part !== "" && part !== ".." && (part === ".") === (nth === 0));
  return isBelow ? { block, path, kind, mode, owner, group } : undefined;
}

/** Names are bytes, one character each here. */
function text(block: Buffer, field: keyof typeof FIELDS): string {
  const [at, length] = FIELDS[field];
  const all = block.toString("latin1", at, at + length);
  const end = all.indexOf("\0");
  return end < 0 ? all : all.slice(0, end);
}

/** Undefined: the number is too large for octal form. */
function octal(block: Buffer, field: keyof typeof FIELDS): number | undefined {
  const digits = text(block, field).trim();
  return /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : undefined;
}

/** The folder headers, to be appended after the content. */
function foldersAgain({ root, headers }: Archive): Buffer {
  const folders = [root, ...headers].filter(({ kind }) => kind === FOLDER).map(({ block }) => block);
  return Buffer.concat([...folders, Buffer.alloc(2 * BLOCK)]);
}

/** Not truncated first: some filesystems flush replaced content and block on it. */
function writeAt(path: string, content: Buffer, at: number): void {
  const file = openSync(path, "r+");
  try {
    writeSync(file, content, 0, content.length, at);
  } finally {
    closeSync(file);
  }
}
