/** How much is carried at once to a sandbox, and to all of a team: who comes takes a place, and leaves it later. */
import { Counter } from "../../base/counter.ts";
import type { ConnectionLimits } from "../limits.ts";
import type { Destination } from "../routing/route-table.ts";

/** A place, or whose places are all taken. */
export type Taken = Place | Full;

interface Place {
  leave(): void;
}

interface Full {
  full: "sandbox" | "team";
  most: number;
}

export interface ConnectionQuota {
  /** Of a sandbox that is not to be reached just now the team is not known, and not counted. */
  take(sandboxId: string, destination: Pick<Destination, "access" | "places"> | undefined): Taken;
}

/** Those of one process alone. */
export class LocalQuota implements ConnectionQuota {
  readonly #bySandbox: Counter;
  readonly #byTeam: Counter;

  constructor({ perSandbox, perTeam }: ConnectionLimits) {
    this.#bySandbox = new Counter(perSandbox);
    this.#byTeam = new Counter(perTeam);
  }

  take(sandboxId: string, destination: Pick<Destination, "access"> | undefined): Taken {
    const team = destination?.access.teamId;
    const [bySandbox, byTeam] = [this.#bySandbox, this.#byTeam];
    if (!bySandbox.add(sandboxId)) return { full: "sandbox", most: bySandbox.most };
    if (team !== undefined && !byTeam.add(team)) {
      bySandbox.remove(sandboxId);
      return { full: "team", most: byTeam.most };
    }
    return {
      leave() {
        bySandbox.remove(sandboxId);
        if (team !== undefined) byTeam.remove(team);
      },
    };
  }
}
