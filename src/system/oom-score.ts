/**
 * OOM scores: which processes the kernel kills first when the machine's memory runs out. The server and its own helpers
 * are among the last, where that is permitted: it takes CAP_SYS_RESOURCE, which root has unless it was dropped. Other
 * programs start at the usual score again, and cannot go below it.
 */
import { writeFileSync } from "node:fs";

/** Not the very last: a machine with only the server left is useless. */
const SERVER_SCORE = -900;
export const USUAL_SCORE = 0;

/** For a shell, which sets its own score before it executes a program. */
export const TAKE_USUAL_SCORE = `{ echo ${USUAL_SCORE} > /proc/self/oom_score_adj; } 2> /dev/null || true; `;

/** False: the server may not change its score. */
export function outliveOthers(file = "/proc/self/oom_score_adj"): boolean {
  try {
    writeFileSync(file, String(SERVER_SCORE));
    return true;
  } catch {
    return false;
  }
}
