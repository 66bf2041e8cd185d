/**
 * Program unpack (COPY in a Dockerfile): extracts an uploaded archive to its target. It reads the archive twice and
 * writes nothing during the first pass, so a rejected archive changes nothing.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  futimesSync,
  lchownSync,
  linkSync,
  lstatSync,
  openSync,
  rmSync,
  statfsSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import type { UnpackRequest } from "../../contract/runtime/guest-programs.ts";
import { quote } from "../system/quote.ts";
import { Archive, type ArchiveEntry, refused } from "./archive.ts";
import { CopyPlan, type Placed } from "./copy-plan.ts";
import { HeldFolders, type Ownership } from "./held-folders.ts";
import {
  absolutePath,
  isFolder,
  ownershipOf,
  type Place,
  parseMode,
  requireAccount,
  resolvePlace,
} from "./target-paths.ts";

/** Attempts to clear a path when another process keeps creating something there. */
const UNPACK_TRIES_MAX = 3;
/** How much an archive may exceed the free disk space when expanded: its headers and block padding. */
const UNPACK_OVERHEAD_MAX_BYTES = 256 * 1024 * 1024;

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;
/** Mode bits taken from the archive. Setuid and setgid are left out; they need an explicit mode. */
const RIGHTS = 0o777;

export async function unpack(request: UnpackRequest): Promise<string[]> {
  try {
    await using archive = await Archive.open(request.archive);
    await copyOut(archive, request);
    return [];
  } finally {
    rmSync(request.archive, { force: true });
  }
}

async function copyOut(archive: Archive, request: UnpackRequest): Promise<void> {
  const owner = ownershipOf(request.owner, request.user);
  const mode = parseMode(request.mode);
  const workdir = request.workdir === "" ? requireAccount(request.user).home : request.workdir;
  const target = absolutePath(request.target, workdir);
  const room = roomAt(resolvePlace(target).root);
  const maxBytes = room + UNPACK_OVERHEAD_MAX_BYTES;

  const plan = new CopyPlan(request.source);
  await archive.each(maxBytes, async ({ header }) => {
    plan.add(header);
    if (plan.bytes > room) throw refused(`it unpacks to more than the ${room} bytes that are free on the disk`);
  });
  plan.requireSource();

  const isInto = /(?:^|\/)\.{0,2}$/.test(request.target) || isFolder(target);
  const single = plan.single === undefined ? undefined : singlePlace(target, isInto ? plan.single : undefined);
  const { root, missing } = single ?? resolvePlace(target);
  using folders = new HeldFolders(isFolder(root) ? root : notAFolder(root), owner);
  folders.enter(missing.slice(0, single === undefined ? undefined : -1));

  await archive.each(maxBytes, async (entry) => {
    const placed = plan.place(entry.header);
    if (placed === undefined) return;
    const path = single === undefined ? [...missing, ...placed.path] : missing;
    const of = placed.kind === "link" ? [...missing, ...placed.of] : [];
    await put(folders, { ...placed, path, of } as Placed, entry, owner, mode);
  });
}

/** Place of a single file: inside the target folder under its own name, or at the target name itself. */
function singlePlace(target: string, ownName: string | undefined): Place {
  const place = ownName === undefined ? resolvePlace(target) : resolvePlace(`${target}/${ownName}`);
  if (place.missing.length > 0) return place;
  // The file exists and is replaced, so the folder to hold open is its parent.
  const at = place.root.lastIndexOf("/");
  return { root: place.root.slice(0, at) || "/", missing: [place.root.slice(at + 1)] };
}

function notAFolder(path: string): never {
  throw new Fault(400, `${quote(path)} is not a folder: nothing can be copied into it`);
}

function roomAt(path: string): number {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
}

async function put(
  folders: HeldFolders,
  placed: Placed,
  { header, content }: ArchiveEntry,
  owner: Ownership,
  mode: number | undefined,
): Promise<void> {
  const rights = mode ?? header.mode & RIGHTS;
  if (placed.kind === "folder") {
    // An existing folder keeps its owner and mode.
    folders.enter(placed.path, mode === undefined ? rights : enterable(rights));
    return;
  }
  const name = placed.path.at(-1) ?? "";
  const path = folders.pathOf(placed.path.slice(0, -1), name);
  const where = folders.nameOf(name);
  switch (placed.kind) {
    case "symlink":
      inFreePlace(path, where, () => symlinkSync(placed.target, path));
      lchownSync(path, owner.uid, owner.gid);
      return;
    case "link":
      linkFrom(folders, placed, where);
      return;
    case "file": {
      const fd = inFreePlace(path, where, () => openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600));
      try {
        for await (const chunk of content) writeWhole(fd, chunk);
        fchownSync(fd, owner.uid, owner.gid);
        fchmodSync(fd, rights);
        const seconds = header.mtime.getTime() / 1000;
        if (seconds >= 0) futimesSync(fd, seconds, seconds);
      } finally {
        closeSync(fd);
      }
    }
  }
}

function linkFrom(folders: HeldFolders, { path, of }: { path: string[]; of: string[] }, where: string): void {
  using from = folders.hold(of.slice(0, -1));
  const to = folders.pathOf(path.slice(0, -1), path.at(-1) ?? "");
  inFreePlace(to, where, () => linkSync(from.pathOf(of.at(-1) ?? ""), to));
}

/** Adds the execute bit for every class that has the read bit. */
function enterable(mode: number): number {
  return mode | ((mode & 0o444) >> 2);
}

/** Removes an existing file or link first, so that nothing is written through a link. A folder is an error. */
function inFreePlace<Made>(path: string, where: string, make: () => Made): Made {
  for (let tries = 1; ; tries++) {
    try {
      return make();
    } catch (cause) {
      const code = systemCode(cause);
      if (code !== "EEXIST" || tries >= UNPACK_TRIES_MAX) {
        throw new Fault(400, `${quote(where)} cannot be written (${code})`, { cause });
      }
      if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory()) {
        throw new Fault(400, `${quote(where)} is a folder: no file can take its place`, { cause });
      }
      unlinkSync(path);
    }
  }
}

function writeWhole(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
}
