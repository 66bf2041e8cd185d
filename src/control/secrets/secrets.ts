/** The secrets of teams: made, changed and deleted. Their values leave the server only through `rule-answers.ts`. */
import { Fault } from "../../contract/fault.ts";
import { SECRET_ID_PREFIX } from "../../contract/management/secret.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { Team } from "../../store/people.ts";
import type { Secret } from "../../store/secrets.ts";
import type { Tables } from "../../store/store.ts";
import { lockTeam } from "../access/people.ts";
import type { Parts } from "../parts.ts";
import { aboutValue, type SecretsKeys } from "./secrets-keys.ts";

/** Unless the operator sets other limits for the team. */
export const SECRETS_PER_TEAM_DEFAULT = 1_000;
/** Older versions are removed: a request always gets the newest one. */
export const SECRET_VERSIONS_KEPT_DEFAULT = 10;

interface NewValue {
  value: string;
  /** Null: none, or unchanged. */
  metadata: Record<string, string> | null;
}

export class Secrets {
  constructor(
    private readonly parts: Pick<Parts, "store" | "clock" | "ids">,
    private readonly keys: SecretsKeys,
  ) {}

  /** Fault 409 for a name that is taken, and beyond the team's limit. */
  async create(team: Team, { name, value, metadata }: NewValue & { name: string }): Promise<Secret> {
    const { store, clock, ids } = this.parts;
    const now = clock.now();
    const secret: Secret = {
      id: `${SECRET_ID_PREFIX}${ids.templateId()}`,
      teamId: team.id,
      name: name.toLowerCase(),
      version: 1,
      metadata: metadata ?? {},
      createdAt: now,
      updatedAt: now,
    };
    await store.transaction(async (tables) => {
      await lockTeam(tables, team.id);
      if (!(await tables.secrets.add(secret))) {
        throw new Fault(409, `this team has a secret "${secret.name}" already; set a new value of it, or delete it`);
      }
      const most = team.limits.secrets ?? SECRETS_PER_TEAM_DEFAULT;
      if ((await tables.secrets.countOf(team.id)) > most) {
        const message = `this team has ${most} secrets, as many as it may have; delete one first`;
        throw new Fault(409, message, { errorCode: "secret_limit_reached" });
      }
      await this.#addVersion(tables, secret, value);
    });
    return secret;
  }

  /** By id, or by name in upper or lower case. Fault 404 when the team has no such secret. */
  async require(team: Team, idOrName: string): Promise<Secret> {
    const { secrets } = this.parts.store;
    const found = idOrName.startsWith(SECRET_ID_PREFIX)
      ? await secrets.byId(team.id, idOrName)
      : await secrets.byName(team.id, idOrName.toLowerCase());
    if (found === undefined) throw absent(idOrName);
    return found;
  }

  /** Adds a version, which every later request gets. */
  async update(team: Team, idOrName: string, { value, metadata }: NewValue): Promise<Secret> {
    const { store, clock } = this.parts;
    const { id } = await this.require(team, idOrName);
    return store.transaction(async (tables) => {
      const raised = await tables.secrets.raise(id, metadata, clock.now());
      if (raised === undefined) throw absent(idOrName);
      await this.#addVersion(tables, raised, value);
      const kept = team.limits.secretVersions ?? SECRET_VERSIONS_KEPT_DEFAULT;
      await tables.secrets.removeVersionsUpTo(id, raised.version - kept);
      return raised;
    });
  }

  /** With all versions and the record of its use. */
  async delete(team: Team, idOrName: string): Promise<void> {
    const { id } = await this.require(team, idOrName);
    if (!(await this.parts.store.secrets.remove(id))) throw absent(idOrName);
  }

  async #addVersion(
    tables: Tables,
    { teamId, id: secretId, version, updatedAt }: Secret,
    value: string,
  ): Promise<void> {
    const sealed = await this.keys.seal(tables, aboutValue({ teamId, secretId, version }), value);
    await tables.secrets.addVersion({ secretId, version, ...sealed, createdAt: updatedAt });
  }
}

function absent(idOrName: string): Fault {
  return new Fault(404, `this team has no secret ${quoted(idOrName)}`);
}
