/**
 * OOM scores: which processes the kernel kills first when the machine's memory runs out. The server, the edge and the
 * relay are among the last, where that is permitted: it takes CAP_SYS_RESOURCE, which root has unless it was dropped.
 * Tools of the server start at the usual score again. Processes of sandboxes come before all others of the machine.
 */
import { writeFileSync } from "node:fs";

/** Not the very last: a machine with only the server left is useless. */
const SERVER_SCORE = -900;
export const USUAL_SCORE = 0;
/**
 * The guest's OOM score; a sandbox cannot go below it. The guest gives user processes more. A tenth of the memory
 * counts.
 */
export const SANDBOX_SCORE = 100;

/** For a shell, which sets its own score before it executes a program. */
export const TAKE_USUAL_SCORE = take(USUAL_SCORE);
export const TAKE_SANDBOX_SCORE = take(SANDBOX_SCORE);

/** False: the server may not change its score. */
export function lowerOomScore(file = "/proc/self/oom_score_adj"): boolean {
  try {
    writeFileSync(file, String(SERVER_SCORE));
    return true;
  } catch {
    return false;
  }
}

function take(score: number): string {
  return `{ echo ${score} > /proc/self/oom_score_adj; } 2> /dev/null || true; `;
}
