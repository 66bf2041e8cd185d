/**
 * What cannot be removed: the folders that a sandbox needs to run, wherever something is mounted, and every folder that
 * holds one of them. A removal of such a folder could only fail, and all that it came across before would be gone.
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

/** For a path at which there is something; `kept` are absolute paths without links. */
export async function demandRemovable(path: string, kept: readonly string[]): Promise<void> {
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

/**
 * Where the thing itself is: all links on the way are followed, and the last one only if the path says so by what is
 * behind it.
 */
async function realPlace(path: string): Promise<string> {
  const last = path.split("/").at(-1) ?? "";
  if (["", ".", ".."].includes(last)) return realpath(path);
  return join(await realpath(dirname(path)), basename(path));
}
