/** Limits how much the guests of each team add to logs, so that one noisy team does not block the store for others. */
import { TokenBucket } from "../../base/token-bucket.ts";

/** Log bytes of all guests of one team: burst, and sustained rate per second. */
export const LOG_TEAM_BURST_MAX_BYTES = 16 * 1024 * 1024;
export const LOG_TEAM_BYTES_PER_SECOND = 256 * 1024;

const FLOW = { burst: LOG_TEAM_BURST_MAX_BYTES, perSecond: LOG_TEAM_BYTES_PER_SECOND };

export class TeamBudgets {
  /** Budgets that are not full; at most one per team. */
  readonly #budgets = new Map<string, TokenBucket>();

  /** False: the budget is too small, and nothing is taken. */
  spend(teamId: string, bytes: number, now: number): boolean {
    const budget = this.#budgets.get(teamId) ?? new TokenBucket(FLOW, now);
    this.#budgets.set(teamId, budget);
    return budget.take(bytes, now);
  }

  tidy(now: number): void {
    for (const [teamId, budget] of [...this.#budgets]) if (budget.isFull(now)) this.#budgets.delete(teamId);
  }
}
