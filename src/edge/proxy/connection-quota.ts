/** Limits of concurrent requests per sandbox and per team. Each request takes a place and leaves it when it is over. */
import { KeyedLimit } from "../../base/keyed-limit.ts";
import type { ConnectionLimits } from "../limits.ts";
import type { Destination } from "../routing/route-table.ts";

/** A place, or the limit that is reached. */
export type QuotaResult = { release(): void } | { full: "sandbox" | "team"; max: number };

export interface ConnectionQuota {
  /** While a sandbox cannot be reached its team is unknown, and only the sandbox is counted. */
  take(sandboxId: string, destination: Pick<Destination, "access" | "places"> | undefined): QuotaResult;
}

/** Limits of a single process. */
export class LocalQuota implements ConnectionQuota {
  readonly #bySandbox: KeyedLimit;
  readonly #byTeam: KeyedLimit;

  constructor({ perSandbox, perTeam }: ConnectionLimits) {
    this.#bySandbox = new KeyedLimit(perSandbox);
    this.#byTeam = new KeyedLimit(perTeam);
  }

  take(sandboxId: string, destination: Pick<Destination, "access"> | undefined): QuotaResult {
    const team = destination?.access.teamId;
    const [bySandbox, byTeam] = [this.#bySandbox, this.#byTeam];
    if (!bySandbox.add(sandboxId)) return { full: "sandbox", max: bySandbox.max };
    if (team !== undefined && !byTeam.add(team)) {
      bySandbox.remove(sandboxId);
      return { full: "team", max: byTeam.max };
    }
    return {
      release() {
        bySandbox.remove(sandboxId);
        if (team !== undefined) byTeam.remove(team);
      },
    };
  }
}
