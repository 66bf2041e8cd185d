/**
 * Folders that must not be removed: those a sandbox needs to run, mount points, and every folder above one of them.
 * Removing such a folder would fail halfway, after deleting part of its contents.
 */
import { realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { readMounts } from "../system/mount-table.ts";
import { quote } from "../system/quote.ts";
import { refuse } from "../system/rpc-fault.ts";

const NEEDED: readonly string[] = ["/proc", "/sys", "/dev", "/.sandlot", "/run/sandlot"];

export async function keptFolders(): Promise<string[]> {
  const mounts = await readMounts();
  return [...NEEDED, ...mounts.map(({ point }) => point)];
}

/** `path` must exist; `kept` are absolute paths without links. */
export async function requireRemovable(path: string, kept: readonly string[]): Promise<void> {
  const real = await realPlace(path);
  const inside = real === "/" ? "/" : `${real}/`;
  const held = kept.find((folder) => folder === real || folder.startsWith(inside));
  if (held === undefined) return;
  const what = held === real ? "is a part" : `holds ${quote(held)}, a part`;
  throw refuse(
    "invalid_argument",
    `${quote(path)} ${what} of the running system and cannot be removed; remove what you do not need inside of it`,
  );
}

/** Follows links in parent folders; one at the end only if the path ends in "/", "." or "..". */
async function realPlace(path: string): Promise<string> {
  const last = path.split("/").at(-1) ?? "";
  if (["", ".", ".."].includes(last)) return realpath(path);
  return join(await realpath(dirname(path)), basename(path));
}
