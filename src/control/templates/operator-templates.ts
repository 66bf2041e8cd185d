/** Templates of all teams, as the operator of the server sees and sets them. */
import { Fault } from "../../contract/fault.ts";
import type { Store, Tables } from "../../store/store.ts";
import { GLOBAL_NAMESPACE, type Template, type TemplateOverview } from "../../store/templates.ts";
import { DEFAULT_TAG, parseTemplateReference } from "./template-reference.ts";

export function listTemplates(store: Store): Promise<TemplateOverview[]> {
  return store.templates.overview();
}

/**
 * How many sandboxes of a template's default build are kept ready. A name without a namespace is one of `homeTeam`. A
 * server that runs notices by itself.
 */
export function setKeptReady(
  store: Store,
  homeTeam: string,
  written: string,
  count: number,
): Promise<TemplateOverview> {
  return store.transaction(async (tables) => {
    const { id, teamId } = await find(tables, homeTeam, written);
    if (teamId === null) {
      throw new Fault(400, `"${written}" is built in; the setting SANDLOT_READY says how many of it are kept ready`);
    }
    await tables.templates.setKeptReady(id, count);
    const changed = (await tables.templates.overview()).find((template) => template.id === id);
    if (changed === undefined) throw notThere(written);
    return changed;
  });
}

async function find({ templates }: Tables, homeTeam: string, written: string): Promise<Template> {
  const { namespace, name, tag = DEFAULT_TAG } = parseTemplateReference(written);
  if (tag !== DEFAULT_TAG) {
    throw new Fault(400, `only the tag "${DEFAULT_TAG}" of a template is kept ready; leave out ":${tag}"`);
  }
  const found =
    namespace === undefined
      ? ((await templates.byAlias(homeTeam, name)) ??
        (await templates.byAlias(GLOBAL_NAMESPACE, name)) ??
        (await templates.byId(name)))
      : await templates.byAlias(namespace, name);
  if (found === undefined) throw notThere(written);
  return found;
}

function notThere(written: string): Fault {
  return new Fault(404, `there is no template "${written}"; \`sandlot templates\` lists them`);
}
