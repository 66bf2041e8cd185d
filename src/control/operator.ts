/** What the operator of the machine may do with sandboxes of all teams. Every change is in the audit log. */
import { Fault } from "../contract/fault.ts";
import type { Team } from "../store/people.ts";
import type { Store } from "../store/store.ts";
import { type AuditLog, commandOrigin } from "./audit/audit.ts";
import { starting } from "./http/caller.ts";
import type { Lifecycle } from "./lifecycle/lifecycle.ts";

interface OperatorServices {
  store: Store;
  lifecycle: Lifecycle;
  audit: AuditLog;
  isReady(): boolean;
}

export class Operator {
  constructor(private readonly services: OperatorServices) {}

  /** Fault 404 for an unknown sandbox. */
  pause(id: string): Promise<void> {
    return this.#change("pause", id, (team) => this.services.lifecycle.pause(team, id, true));
  }

  /** Fault 404 for an unknown sandbox. */
  kill(id: string): Promise<void> {
    return this.#change("kill", id, (team) => this.services.lifecycle.kill(team, id));
  }

  async #change(act: string, id: string, work: (team: Team) => Promise<void>): Promise<void> {
    const { store, audit, isReady } = this.services;
    if (!isReady()) throw starting();
    const sandbox = await store.sandboxes.byId(id);
    const team = sandbox && (await store.people.team(sandbox.teamId));
    if (team === undefined) throw new Fault(404, `there is no sandbox "${id}"`);
    await work(team);
    audit.note(commandOrigin(`top, ${act}`), { teamId: team.id, object: id, status: 200 });
  }
}
