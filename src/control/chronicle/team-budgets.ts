/** How much the guests of each team may still add to logs: one team's noise must not keep the store from the others. */
import { LOG_TEAM_BURST_MAX_BYTES, LOG_TEAM_BYTES_PER_SECOND } from "../limits.ts";

interface Budget {
  left: number;
  at: number;
}

export class TeamBudgets {
  /** Those that are not full; never more than there are teams. */
  readonly #budgets = new Map<string, Budget>();

  /** False: there is not so much left, and nothing is taken. */
  spend(teamId: string, bytes: number, now: number): boolean {
    const left = this.#leftOf(teamId, now);
    if (left < bytes) return false;
    this.#budgets.set(teamId, { left: left - bytes, at: now });
    return true;
  }

  tidy(now: number): void {
    for (const teamId of [...this.#budgets.keys()]) {
      if (this.#leftOf(teamId, now) >= LOG_TEAM_BURST_MAX_BYTES) this.#budgets.delete(teamId);
    }
  }

  #leftOf(teamId: string, now: number): number {
    const budget = this.#budgets.get(teamId);
    if (budget === undefined) return LOG_TEAM_BURST_MAX_BYTES;
    const grown = (Math.max(0, now - budget.at) / 1000) * LOG_TEAM_BYTES_PER_SECOND;
    return Math.min(LOG_TEAM_BURST_MAX_BYTES, budget.left + grown);
  }
}
