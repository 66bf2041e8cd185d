/** One file, directory or link as clients see it. A link has the type and mode of its final target. */
import type { BigIntStats } from "node:fs";
import { lstat, realpath, stat } from "node:fs/promises";
import { basename } from "node:path";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { systemCode } from "../../base/system-code.ts";
import { type EntryInfoSchema, FileType } from "../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { readMetadata } from "../system/extended-attributes.ts";
import { logError } from "../system/log.ts";
import type { Accounts } from "../users/accounts.ts";
import { permissionText } from "./permissions.ts";

export type Entry = MessageInitShape<typeof EntryInfoSchema>;

const NANOS_PER_SECOND = 1_000_000_000n;
/** Errors that are normal for a dangling link. */
const LEADS_NOWHERE: ReadonlySet<string> = new Set(["ENOENT", "ELOOP", "ENOTDIR", "EACCES", "ENAMETOOLONG"]);
const PERMISSION_BITS = 0o777;

/** Throws the system's error if nothing exists at the path. */
export async function readEntry(path: string, accounts: Accounts): Promise<Entry> {
  const own = await lstat(path, { bigint: true });
  const link = own.isSymbolicLink() ? await followLink(path) : undefined;
  const described = link === undefined ? own : link.target;
  return {
    name: basename(path),
    path,
    type: described === undefined ? FileType.UNSPECIFIED : fileType(described),
    size: own.size,
    mode: described === undefined ? 0 : Number(described.mode) & PERMISSION_BITS,
    permissions: permissionText(Number(own.mode)),
    owner: accounts.userName(Number(own.uid)),
    group: accounts.groupName(Number(own.gid)),
    ...(own.mtimeNs === 0n ? {} : { modifiedTime: timestamp(own.mtimeNs) }),
    ...(link === undefined ? {} : { symlinkTarget: link.path }),
    ...(own.isFile() || own.isDirectory() ? { metadata: readMetadata(path) } : {}),
  };
}

interface FollowedLink {
  path: string;
  target: BigIntStats | undefined;
}

async function followLink(path: string): Promise<FollowedLink> {
  try {
    return { path: await realpath(path), target: await stat(path, { bigint: true }) };
  } catch (thrown) {
    if (!LEADS_NOWHERE.has(systemCode(thrown))) {
      logError("a symbolic link could not be followed", thrown);
    }
    return { path, target: undefined };
  }
}

function fileType(stats: BigIntStats): FileType {
  if (stats.isFile()) return FileType.FILE;
  return stats.isDirectory() ? FileType.DIRECTORY : FileType.UNSPECIFIED;
}

function timestamp(nanos: bigint): { seconds: bigint; nanos: number } {
  const fraction = ((nanos % NANOS_PER_SECOND) + NANOS_PER_SECOND) % NANOS_PER_SECOND;
  return { seconds: (nanos - fraction) / NANOS_PER_SECOND, nanos: Number(fraction) };
}
