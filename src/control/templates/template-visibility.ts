/** Who may use a template: its team alone, or everybody; and whether everybody finds it by its bare name. */

import type { Clock } from "../../base/clock.ts";
import { Fault } from "../../contract/fault.ts";
import type { TemplateName } from "../../store/listed-templates.ts";
import type { Team } from "../../store/people.ts";
import type { Store, Tables } from "../../store/store.ts";
import { GLOBAL_NAMESPACE, type Template } from "../../store/templates.ts";
import { findOwn, refuseBlocked } from "./own-template.ts";
import { isLikeTemplateId } from "./template-reference.ts";

interface VisibilityChange {
  /** Undefined: as it is. */
  isPublic: boolean | undefined;
  /** Published, it is also found without the team's namespace. */
  claimsNames: boolean;
}

/** Clients ask for these by themselves: who held one would get the code and secrets of all teams. */
const NAMES_OF_CLIENTS: ReadonlySet<string> = new Set(["base", "code-interpreter-v1", "desktop", "mcp-gateway"]);

/** Answers the names that it has then. */
export async function setVisibility(
  { store, clock }: { store: Store; clock: Clock },
  team: Team,
  written: string,
  { isPublic, claimsNames }: VisibilityChange,
): Promise<string[]> {
  refuseBlocked(team);
  return store.transaction(async (tables) => {
    const { template } = await findOwn(tables, team, written);
    if (isPublic !== undefined && !(await tables.templates.setPublic(template.id, isPublic, clock.now()))) {
      throw new Fault(404, `template "${written}" does not exist`);
    }
    if (isPublic === true && (await tables.builds.haveVolumes(template.id))) throw withVolumes(written);
    if (isPublic === true && claimsNames) await claimNames(tables, template);
    // A name for everybody is for what everybody can use.
    if (isPublic === false) await tables.templates.removeAliases(GLOBAL_NAMESPACE, template.id);
    return namesOf((await tables.listedTemplates.byId(template.id))?.names ?? []);
  });
}

/** As clients see them: `namespace/alias`, or the bare alias of one that everybody finds by that. */
export function namesOf(names: readonly TemplateName[]): string[] {
  const bare = new Set(names.filter(({ namespace }) => namespace === GLOBAL_NAMESPACE).map(({ alias }) => alias));
  return [...new Set(names.map(({ namespace, alias }) => (bare.has(alias) ? alias : `${namespace}/${alias}`)))];
}

/** Volumes are the team's alone. */
function withVolumes(written: string): Fault {
  return new Fault(
    409,
    `template "${written}" has snapshots of sandboxes with volumes, which no other team can mount; delete them first`,
  );
}

async function claimNames(tables: Tables, template: Template): Promise<void> {
  // In one order for all, so that two who claim the same names never wait for each other.
  for (const alias of (await tables.templates.aliasesOf(template.id)).sort()) {
    // No template gets such a name any more; one of an earlier version may have it.
    if (isLikeTemplateId(alias)) {
      throw new Fault(409, `"${alias}" has the form of a template's id, and is no name for all teams; choose another`);
    }
    if (NAMES_OF_CLIENTS.has(alias)) {
      throw new Fault(409, `"${alias}" is reserved for a built-in template; choose another`);
    }
    if (await tables.templates.addAlias(GLOBAL_NAMESPACE, alias, template.id)) continue;
    const holder = await tables.templates.byAlias(GLOBAL_NAMESPACE, alias);
    if (holder?.id === template.id) continue;
    throw new Fault(409, `the name "${alias}" is taken for all teams by another template`);
  }
}
