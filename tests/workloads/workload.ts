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
  /** Shares its sandbox with no other workload, because its program waits for a limited time. */
  isAlone?: boolean;
  /**
   * Starts the program, builds up state that only its memory holds, pauses, and checks what is left. In short runs it
   * shares sandbox and pause with others, so it has paths, ports and names of its own.
   */
  play(stage: Stage): Promise<void>;
}
