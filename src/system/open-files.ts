/** How many files a process may open: a server without CAP_SYS_RESOURCE cannot give its sandboxes more than it has. */
import { readFileSync } from "node:fs";

export const OPEN_FILES_WANTED = 1_048_576;

let known: number | undefined;

/** Read once: a raised limit takes effect when the server restarts. */
export function openFilesMax(): number {
  known ??= lookUp();
  return known;
}

function lookUp(): number {
  const line = readFileSync("/proc/self/limits", "utf8")
    .split("\n")
    .find((text) => text.startsWith("Max open files"));
  const hard = line?.trim().split(/\s+/)[4];
  return hard === undefined || hard === "unlimited" ? OPEN_FILES_WANTED : Math.min(OPEN_FILES_WANTED, Number(hard));
}
