/**
 * Who is ended first when the machine's memory runs out. The server and what it starts for itself are among the last,
 * where it may say so: that takes CAP_SYS_RESOURCE, which root has unless somebody took it away. What is not its own
 * begins at the usual score again, and cannot go below it.
 */
import { writeFileSync } from "node:fs";

/** Not the last of all: a machine is of no use to anybody with only the server left. */
const SERVER_SCORE = -900;
export const USUAL_SCORE = 0;

/** In a shell, for itself and what it becomes. */
export const TAKE_USUAL_SCORE = `{ echo ${USUAL_SCORE} > /proc/self/oom_score_adj; } 2> /dev/null || true; `;

/** False: the server may not. */
export function outliveOthers(file = "/proc/self/oom_score_adj"): boolean {
  try {
    writeFileSync(file, String(SERVER_SCORE));
    return true;
  } catch {
    return false;
  }
}
