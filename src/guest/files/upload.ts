/**
 * POST /files: writes files in place as they arrive. If an upload breaks off, a file that it created is removed, and an
 * existing file keeps the data that arrived. Concurrent uploads to one file interleave. Two guarantees remain: the file
 * ends with the length of the upload that finishes last, and an aborted upload never removes data of another one.
 */
import { constants } from "node:fs";
import { type FileHandle, open, readlink } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { ensureDirectory, statIfThere } from "../file-tree/tree.ts";
import { type Metadata, replaceMetadata } from "../system/extended-attributes.ts";
import { discard } from "../system/garbage.ts";
import { quote } from "../system/quote.ts";
import type { Account } from "../users/accounts.ts";
import { requireNameable } from "../users/paths.ts";
import { parseMetadata } from "./file-metadata.ts";
import { parseBoundary, readParts } from "./multipart.ts";
import { notRegular, removePartial, writeFault } from "./write-failure.ts";

export interface UploadedFile {
  name: string;
  path: string;
  type: "file";
  /** Present only if there is some and the file system stores it. */
  metadata?: Metadata;
}

const FILE_MODE = 0o666;

/** `field` is the client's name for the path, used in messages. */
type Resolve = (path: string, field?: string) => string;

interface Inventory {
  owner: Account;
  metadata: Metadata;
}

interface UploadUnderWay extends Disposable {
  /** Whether another upload wrote to the file during this one. Stays true after the other has ended. */
  overlapped: boolean;
}

/** By the file itself, because links can give it several names. */
const uploads = new Map<string, Set<UploadUnderWay>>();

export async function upload(
  request: Request,
  path: string | null,
  resolve: Resolve,
  owner: Account,
): Promise<UploadedFile[]> {
  const inventory = { owner, metadata: parseMetadata(request.headers) };
  const type = request.headers.get("content-type") ?? "";
  if (/^application\/octet-stream\s*(;|$)/i.test(type)) {
    if (path === null || path === "") throw new Fault(400, "an octet-stream upload needs the path parameter");
    return [await writeFile(resolve(path), decodedBody(request), inventory)];
  }
  if (/^multipart\//i.test(type)) return writeParts(request, parseBoundary(type), path, resolve, inventory);
  throw new Fault(400, `uploads are application/octet-stream or multipart/form-data, not ${quote(type || "untyped")}`);
}

async function writeParts(
  request: Request,
  boundary: string,
  path: string | null,
  resolve: Resolve,
  inventory: Inventory,
): Promise<UploadedFile[]> {
  const written = new Map<string, UploadedFile>();
  for await (const part of readParts(decodedBody(request), boundary)) {
    if (part.name !== "file") continue;
    const given = path || part.filename;
    if (!given) throw new Fault(400, "a file part has no filename and the request has no path parameter");
    const target = resolve(given, path ? "path" : "filename");
    if (written.has(target)) throw new Fault(400, `two parts of this upload are for the same path ${quote(target)}`);
    written.set(target, await writeFile(target, part.content, inventory));
  }
  return [...written.values()];
}

async function* decodedBody(request: Request): AsyncGenerator<Uint8Array> {
  const encoding = (request.headers.get("content-encoding") ?? "identity").trim().toLowerCase();
  if (encoding !== "gzip" && encoding !== "identity" && encoding !== "") {
    throw new Fault(400, `the content encoding ${quote(encoding)} is not understood; use gzip or identity`);
  }
  if (request.body === null) return;
  if (encoding !== "gzip") return yield* request.body;
  try {
    yield* request.body.pipeThrough(new DecompressionStream("gzip"));
  } catch (thrown) {
    if (request.signal.aborted) throw thrown;
    throw new Fault(400, "the body is not valid gzip", { cause: thrown });
  }
}

async function writeFile(
  path: string,
  content: AsyncIterable<Uint8Array>,
  inventory: Inventory,
): Promise<UploadedFile> {
  requireNameable(path);
  try {
    await ensureDirectory(dirname(path), inventory.owner);
    const { file, createdAt } = await openForWriting(path);
    await using handle = file;
    const { stored } = await fill({ file: handle, path, createdAt }, content, inventory);
    const { metadata } = inventory;
    const kept = stored && Object.keys(metadata).length > 0 ? { metadata } : {};
    return { name: basename(path), path, type: "file", ...kept };
  } catch (thrown) {
    throw writeFault(path, thrown);
  }
}

interface Opened {
  file: FileHandle;
  path: string;
  /** The file's real path if this upload created it. */
  createdAt: string | undefined;
}

async function fill(
  { file, path, createdAt }: Opened,
  content: AsyncIterable<Uint8Array>,
  { owner, metadata }: Inventory,
): Promise<{ stored: boolean }> {
  const present = await file.stat({ bigint: true });
  // Another file may have taken the path between the check and the open.
  if (!present.isFile()) throw notRegular(path);
  using upload = enter(`${present.dev}:${present.ino}`);
  try {
    // Metadata first: if there is no room for it, the file stays unchanged.
    const stored = replaceMetadata(file.fd, metadata);
    await file.chown(owner.uid, owner.gid);
    if (createdAt === undefined || present.size > 0n) await file.truncate(0);
    let length = 0;
    for await (const chunk of content) {
      length += chunk.length;
      await writeWhole(file, chunk);
      discard(chunk);
    }
    if (upload.overlapped) await file.truncate(length);
    return { stored };
  } catch (thrown) {
    if (createdAt !== undefined && !upload.overlapped) await removePartial(createdAt, file);
    throw thrown;
  }
}

function enter(file: string): UploadUnderWay {
  const others = uploads.get(file) ?? new Set();
  const upload: UploadUnderWay = {
    overlapped: others.size > 0,
    [Symbol.dispose]: () => {
      others.delete(upload);
      if (others.size === 0) uploads.delete(file);
    },
  };
  for (const other of others) other.overlapped = true;
  uploads.set(file, others.add(upload));
  return upload;
}

/** Repeats, because the kernel may take only a part. */
async function writeWhole(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let left = chunk; left.length > 0; ) {
    const { bytesWritten } = await file.write(left);
    left = left.subarray(bytesWritten);
  }
}

async function openForWriting(path: string): Promise<Omit<Opened, "path">> {
  // O_NONBLOCK: a named pipe that replaces the file after the check must not block the open.
  const write = constants.O_WRONLY | constants.O_CREAT | constants.O_NONBLOCK;
  try {
    return { file: await open(path, write | constants.O_EXCL, FILE_MODE), createdAt: path };
  } catch (thrown) {
    if (systemCode(thrown) !== "EEXIST") throw thrown;
  }
  // A dangling link is fine: the file is created through it.
  const present = await statIfThere(path);
  if (present?.isDirectory()) throw new Fault(400, `${quote(path)} is a directory`);
  // Opening a pipe or a device could block forever or have side effects.
  if (present !== undefined && !present.isFile()) throw notRegular(path);
  const file = await open(path, write, FILE_MODE);
  return { file, createdAt: present === undefined ? await readlink(`/proc/self/fd/${file.fd}`) : undefined };
}
