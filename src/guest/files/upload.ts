/**
 * POST /files: files written in place while they arrive. A file that an upload created is removed again when the upload
 * breaks off; a file that was there before keeps what had arrived.
 */
import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, stat, unlink } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { Fault } from "../../contract/fault.ts";
import type { Account } from "../accounts.ts";
import { ensureDirectory } from "../filesystem/tree.ts";
import { noteGarbage } from "../garbage.ts";
import { logError } from "../log.ts";
import { systemCode } from "../rpc-fault.ts";
import { parseBoundary, readParts } from "./multipart.ts";

export interface UploadedFile {
  name: string;
  path: string;
  type: "file";
}

const METADATA_PREFIX = "x-metadata-";
const FILE_MODE = 0o666;
const DISK_FULL = new Set(["ENOSPC", "EDQUOT"]);

type Resolve = (path: string) => string;

export async function upload(
  request: Request,
  path: string | null,
  resolve: Resolve,
  owner: Account,
): Promise<UploadedFile[]> {
  refuseMetadata(request.headers);
  const type = request.headers.get("content-type") ?? "";
  if (/^application\/octet-stream\s*(;|$)/i.test(type)) {
    if (path === null || path === "") throw new Fault(400, "an octet-stream upload needs the path parameter");
    return [await writeFile(resolve(path), decodedBody(request), owner)];
  }
  if (/^multipart\//i.test(type)) return writeParts(request, parseBoundary(type), path, resolve, owner);
  throw new Fault(
    400,
    `uploads are application/octet-stream or multipart/form-data, not ${JSON.stringify(type || "untyped")}`,
  );
}

function refuseMetadata(headers: Headers): void {
  for (const name of headers.keys()) {
    if (name.startsWith(METADATA_PREFIX)) {
      throw new Fault(400, `the header ${name} asks for file metadata, which this version of the runtime cannot store`);
    }
  }
}

async function writeParts(
  request: Request,
  boundary: string,
  path: string | null,
  resolve: Resolve,
  owner: Account,
): Promise<UploadedFile[]> {
  const written = new Map<string, UploadedFile>();
  for await (const part of readParts(decodedBody(request), boundary)) {
    if (part.name !== "file") continue;
    const given = path || part.filename;
    if (!given) throw new Fault(400, "a file part has no filename and the request has no path parameter");
    const target = resolve(given);
    if (written.has(target))
      throw new Fault(400, `two parts of this upload are for the same path ${JSON.stringify(target)}`);
    written.set(target, await writeFile(target, part.content, owner));
  }
  return [...written.values()];
}

/** The request's body, unpacked when it is packed, chunk by chunk. */
async function* decodedBody(request: Request): AsyncGenerator<Uint8Array> {
  const encoding = (request.headers.get("content-encoding") ?? "identity").trim().toLowerCase();
  if (encoding !== "gzip" && encoding !== "identity" && encoding !== "") {
    throw new Fault(400, `the content encoding ${JSON.stringify(encoding)} is not understood; use gzip or identity`);
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

async function writeFile(path: string, content: AsyncIterable<Uint8Array>, owner: Account): Promise<UploadedFile> {
  try {
    await ensureDirectory(dirname(path), owner);
    const { file, created } = await openForWriting(path);
    await using handle = file;
    try {
      await handle.chown(owner.uid, owner.gid);
      for await (const chunk of content) await writeAll(handle, chunk);
    } catch (thrown) {
      if (created) await removePartial(path, handle);
      throw thrown;
    }
  } catch (thrown) {
    throw writeFault(path, thrown);
  }
  return { name: basename(path), path, type: "file" };
}

async function openForWriting(path: string): Promise<{ file: FileHandle; created: boolean }> {
  const write = constants.O_WRONLY | constants.O_CREAT;
  try {
    return { file: await open(path, write | constants.O_EXCL, FILE_MODE), created: true };
  } catch (thrown) {
    if (systemCode(thrown) !== "EEXIST") throw thrown;
  }
  const present = await statIfResolvable(path);
  if (present?.isDirectory()) throw new Fault(400, `${JSON.stringify(path)} is a directory`);
  // Opening a pipe or a device could block for ever or change the machine.
  if (present !== undefined && !present.isFile()) throw new Fault(400, `${JSON.stringify(path)} is not a regular file`);
  return { file: await open(path, write | constants.O_TRUNC, FILE_MODE), created: false };
}

/** A link whose target does not exist yet is fine: the file is created through it. */
async function statIfResolvable(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (thrown) {
    if (systemCode(thrown) === "ENOENT") return undefined;
    throw thrown;
  }
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length; ) {
    const { bytesWritten } = await file.write(chunk, at, chunk.length - at, null);
    at += bytesWritten;
  }
  noteGarbage(chunk.length);
}

/** Only the very file this upload made is removed, not one that somebody put in its place meanwhile. */
async function removePartial(path: string, file: FileHandle): Promise<void> {
  try {
    const [ours, present] = await Promise.all([file.stat(), lstat(path)]);
    if (ours.dev === present.dev && ours.ino === present.ino) await unlink(path);
  } catch (thrown) {
    if (systemCode(thrown) !== "ENOENT") logError("a broken-off upload could not be removed", thrown);
  }
}

function writeFault(path: string, thrown: unknown): unknown {
  const code = systemCode(thrown);
  if (code === "" || code === "ABORT_ERR") return thrown;
  if (DISK_FULL.has(code)) {
    return new Fault(507, `the sandbox's disk is full; ${JSON.stringify(path)} could not be written`, {
      cause: thrown,
    });
  }
  return new Fault(500, `${JSON.stringify(path)} could not be written: ${code}`, { cause: thrown });
}
