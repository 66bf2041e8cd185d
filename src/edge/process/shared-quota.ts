/** Connection limits that all edge processes enforce together. */
import type { ConnectionLimits } from "../limits.ts";
import { type ConnectionQuota, LocalQuota, type QuotaResult } from "../proxy/connection-quota.ts";
import type { Destination } from "../routing/route-table.ts";
import type { SharedCounts } from "./shared-counts.ts";

export class SharedQuota implements ConnectionQuota {
  /** For sandboxes without shared counters: each process enforces an equal share. */
  readonly #share: LocalQuota;

  constructor(
    private readonly counts: SharedCounts,
    private readonly process: number,
    processes: number,
    private readonly limits: ConnectionLimits,
  ) {
    const shareOf = (max: number) => Math.max(1, Math.floor(max / processes));
    this.#share = new LocalQuota({ perSandbox: shareOf(limits.perSandbox), perTeam: shareOf(limits.perTeam) });
  }

  take(sandboxId: string, destination: Pick<Destination, "access" | "places"> | undefined): QuotaResult {
    const numbers = destination?.places;
    if (numbers === undefined) return this.#share.take(sandboxId, destination);
    const { perSandbox, perTeam } = this.limits;
    const [counts, process] = [this.counts, this.process];
    if (!counts.add(numbers.sandbox, process, perSandbox)) return { full: "sandbox", max: perSandbox };
    if (!counts.add(numbers.team, process, perTeam)) {
      counts.remove(numbers.sandbox, process);
      return { full: "team", max: perTeam };
    }
    return {
      release() {
        counts.remove(numbers.sandbox, process);
        counts.remove(numbers.team, process);
      },
    };
  }
}
