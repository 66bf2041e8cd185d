/** How much is carried at once to a sandbox, and to all of a team: who comes takes a place, and leaves it later. */
import { Tally } from "../work/tally.ts";
import type { ConnectionLimits } from "./limits.ts";
import type { Destination } from "./route-table.ts";

/** A place, or whose places are all taken. */
export type Taken = Place | Full;

interface Place {
  leave(): void;
}

interface Full {
  full: "sandbox" | "team";
  most: number;
}

export interface Places {
  /** Of a sandbox that is not to be reached just now the team is not known, and not counted. */
  take(sandboxId: string, destination: Pick<Destination, "access" | "places"> | undefined): Taken;
}

/** Those of one process alone. */
export class OwnPlaces implements Places {
  readonly #bySandbox: Tally;
  readonly #byTeam: Tally;

  constructor({ perSandbox, perTeam }: ConnectionLimits) {
    this.#bySandbox = new Tally(perSandbox);
    this.#byTeam = new Tally(perTeam);
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
