/** Processes and their children, from /proc. */
import { existsSync, readdirSync, readFileSync } from "node:fs";

/** Children of all its threads. Empty for a process that has ended. */
export function childrenOf(pid: number): number[] {
  const tasks = `/proc/${pid}/task`;
  const files = existsSync(tasks) ? readdirSync(tasks).map((thread) => `${tasks}/${thread}/children`) : [];
  return files.flatMap((file) => readFileSync(file, "utf8").split(" ").filter(Boolean).map(Number));
}

/** The process and all its descendants. Sandboxes are not descendants of their server. */
export function treeOf(pid: number): number[] {
  return [pid, ...childrenOf(pid).flatMap(treeOf)];
}

export function commandLineOf(pid: number): string {
  const file = `/proc/${pid}/cmdline`;
  // A process may have ended meanwhile.
  return existsSync(file) ? readFileSync(file, "utf8").replaceAll("\0", " ").trim() : "";
}
