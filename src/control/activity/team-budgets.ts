/** How much the guests of each team may still add to logs: one team's noise must not keep the store from the others. */
import { TokenBucket } from "../../base/token-bucket.ts";

/** What the guests of one team may add, however many they are: at once, and each second for good. */
export const LOG_TEAM_BURST_MAX_BYTES = 16 * 1024 * 1024;
export const LOG_TEAM_BYTES_PER_SECOND = 256 * 1024;

const FLOW = { burst: LOG_TEAM_BURST_MAX_BYTES, perSecond: LOG_TEAM_BYTES_PER_SECOND };

export class TeamBudgets {
  /** Those that are not full; never more than there are teams. */
  readonly #budgets = new Map<string, TokenBucket>();

  /** False: there is not so much left, and nothing is taken. */
  spend(teamId: string, bytes: number, now: number): boolean {
    const budget = this.#budgets.get(teamId) ?? new TokenBucket(FLOW, now);
    this.#budgets.set(teamId, budget);
    return budget.take(bytes, now);
  }

  tidy(now: number): void {
    for (const [teamId, budget] of [...this.#budgets]) if (budget.isFull(now)) this.#budgets.delete(teamId);
  }
}
