/** Whose turn it is, of those that have something to move. */
import type { Transfer } from "./transfer.ts";

/**
 * Each has a turn, unless all stand back. Who had one waits behind the others, so that each has one however often they
 * do; who has nothing more to move, or is over, waits no longer.
 */
export function giveTurns(waiting: Set<Pick<Transfer, "isOver" | "turn">>, standsBack: () => boolean): void {
  for (const transfer of [...waiting]) {
    if (!transfer.isOver && standsBack()) return;
    waiting.delete(transfer);
    if (!transfer.isOver && transfer.turn(standsBack)) waiting.add(transfer);
  }
}
