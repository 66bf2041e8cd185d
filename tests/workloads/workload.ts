/** One program that agents run, and how a pause affects it. Each is a row in docs/pause.md. */
import type { Stage } from "./stage.ts";

export interface Workload {
  /** As the row says it. */
  what: string;
  /** A smaller amount that runs without SANDLOT_TEST_LONG=1 instead of the row's. */
  sample?: string;
  /**
   * kept: goes on as if nothing had happened. closed: sees an error and can go on. refused: the pause is refused, and
   * the sandbox runs on.
   */
  fate: "kept" | "closed" | "refused";
  /** Starts the program, builds up state that only its memory holds, pauses, and checks what is left. */
  play(stage: Stage): Promise<void>;
}
