/** What the operator of the machine may do with sandboxes of all teams. Every change is in the audit log. */
import { Fault } from "../contract/fault.ts";
import type { Team } from "../store/people.ts";
import type { Store } from "../store/store.ts";
import { type AuditLog, commandOrigin } from "./audit/audit.ts";
import { notReady } from "./http/caller.ts";
import type { Lifecycle } from "./lifecycle/lifecycle.ts";
import type { IdentityIssuer } from "./secrets/identity-issuer.ts";
import type { Rotation, SecretsKeys } from "./secrets/secrets-keys.ts";

interface OperatorServices {
  store: Store;
  lifecycle: Lifecycle;
  audit: AuditLog;
  secretsKeys: SecretsKeys;
  identity: IdentityIssuer;
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

  /** Encrypts all secrets with a new key while they are used. */
  async rotateSecretsKey(): Promise<Rotation> {
    this.#requireReady();
    const rotation = await this.services.secretsKeys.rotate();
    this.services.audit.note(commandOrigin("secrets rotate-key"), { teamId: null, object: null, status: 200 });
    return rotation;
  }

  /** Replaces the key that signs workload identities. Returns when the new one begins to sign. */
  async rotateSigningKey(): Promise<{ signsAt: number }> {
    this.#requireReady();
    const signsAt = await this.services.identity.rotate();
    this.services.audit.note(commandOrigin("secrets rotate-signing-key"), { teamId: null, object: null, status: 200 });
    return { signsAt };
  }

  #requireReady(): void {
    if (!this.services.isReady()) throw notReady();
  }

  async #change(act: string, id: string, work: (team: Team) => Promise<void>): Promise<void> {
    const { store, audit } = this.services;
    this.#requireReady();
    const sandbox = await store.sandboxes.byId(id);
    const team = sandbox && (await store.people.team(sandbox.teamId));
    if (team === undefined) throw new Fault(404, `there is no sandbox "${id}"`);
    await work(team);
    audit.note(commandOrigin(`top, ${act}`), { teamId: team.id, object: id, status: 200 });
  }
}
