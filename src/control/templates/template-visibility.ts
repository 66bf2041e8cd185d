/** Visibility of a template: its team only or all teams, and whether all teams find it by its bare name. */
import type { Clock } from "../../base/clock.ts";
import { Fault } from "../../contract/fault.ts";
import type { TemplateName } from "../../store/listed-templates.ts";
import type { Team } from "../../store/people.ts";
import type { Store, Tables } from "../../store/store.ts";
import { GLOBAL_NAMESPACE, type Template } from "../../store/templates.ts";
import { findOwn, refuseBlocked } from "./team-template.ts";
import { isLikeTemplateId } from "./template-reference.ts";

interface VisibilityChange {
  /** Undefined: unchanged. */
  isPublic: boolean | undefined;
  /** A public template is also found without the team's namespace. */
  claimsNames: boolean;
}

/** Clients use these names by default: a team that owned one would receive the code and secrets of all teams. */
const NAMES_OF_CLIENTS: ReadonlySet<string> = new Set(["base", "code-interpreter-v1", "desktop", "mcp-gateway"]);

/** Returns the resulting names. */
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
    // Only a public template may have a name in the global namespace.
    if (isPublic === false) await tables.templates.removeAliases(GLOBAL_NAMESPACE, template.id);
    return namesOf((await tables.listedTemplates.byId(template.id))?.names ?? []);
  });
}

/** The API form: `namespace/alias`, or the bare alias of a global name. */
export function namesOf(names: readonly TemplateName[]): string[] {
  const bare = new Set(names.filter(({ namespace }) => namespace === GLOBAL_NAMESPACE).map(({ alias }) => alias));
  return [...new Set(names.map(({ namespace, alias }) => (bare.has(alias) ? alias : `${namespace}/${alias}`)))];
}

/** Only their own team can mount volumes. */
function withVolumes(written: string): Fault {
  return new Fault(
    409,
    `template "${written}" has snapshots of sandboxes with volumes, which no other team can mount; delete them first`,
  );
}

async function claimNames(tables: Tables, template: Template): Promise<void> {
  // Sorted, so that two claims of the same names cannot deadlock.
  for (const alias of (await tables.templates.aliasesOf(template.id)).sort()) {
    // Such names are no longer allowed, but a template of an earlier version may have one.
    if (isLikeTemplateId(alias)) {
      throw new Fault(409, `"${alias}" has the form of a template's id, and cannot be public; choose another`);
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
