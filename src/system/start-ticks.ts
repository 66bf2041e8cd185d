/** The start time of a process: with its pid it identifies one process for as long as the machine is up. */
import { readFileSync } from "node:fs";
import { systemCode } from "../base/system-code.ts";

/** Undefined when the process does not exist or is a zombie. Throws when that is unknown. */
export function startTicks(pid: number): string | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes(systemCode(error))) return undefined;
    throw error;
  }
  // The name in the second field may contain anything, so fields are counted from its closing parenthesis.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
}
