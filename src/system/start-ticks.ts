/** When a process began: with its number it names one process for as long as the machine is up. */
import { readFileSync } from "node:fs";

/**
 * Undefined when there is no such process, or only what is left of it until its parent looks. Throws when that cannot
 * be known, as when this server may open no further file.
 */
export function startTicks(pid: number): string | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
  // The name in the second field may hold anything, so count from its closing parenthesis.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
}
