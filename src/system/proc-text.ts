/** Files of /proc, which vanish with their process. */
import { readFileSync } from "node:fs";

/** Empty if the process has ended, or has not started. */
export function procText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
