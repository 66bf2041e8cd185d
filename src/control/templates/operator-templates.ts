/** Changes templates of all teams, for the operator's commands. */
import { Fault } from "../../contract/fault.ts";
import type { RuntimeName } from "../../contract/runtime-name.ts";
import type { Store, Tables } from "../../store/store.ts";
import type { Template, TemplateOverview } from "../../store/templates.ts";
import { type Recording, record } from "../audit/audit.ts";
import { DEFAULT_TAG, parseTemplateReference } from "./template-reference.ts";

/**
 * Sets how many sandboxes of a template's default build are in the ready pool. The template is a team's, or one of the
 * `definitions`: built-in templates that are built on demand. A name without a namespace is first looked up in
 * `homeTeam`. A running server notices the change.
 */
export function setKeptReady(
  store: Store,
  homeTeam: string,
  { written, count }: { written: string; count: number },
  definitions: readonly { id: string }[],
  recording: Recording,
): Promise<TemplateOverview> {
  return store.transaction(async (tables) => {
    const { id, teamId } = await find(tables, homeTeam, written);
    if (teamId === null && !definitions.some((definition) => definition.id === id)) {
      throw new Fault(400, `"${written}" is built in; the setting SANDLOT_READY says how many of it are kept ready`);
    }
    await tables.templates.setKeptReady(id, count);
    await record(tables, recording, { teamId, object: `template ${id}, ready ${count}` });
    return await overviewOf(tables, id, written);
  });
}

/** Sets the isolation runtime of a template's sandboxes; null: the server's default. Names as for `setKeptReady`. */
export function setRuntime(
  store: Store,
  homeTeam: string,
  written: string,
  runtime: RuntimeName | null,
  recording: Recording,
): Promise<TemplateOverview> {
  return store.transaction(async (tables) => {
    const { id, teamId } = await find(tables, homeTeam, written);
    await tables.templates.setRuntime(id, runtime);
    await record(tables, recording, { teamId, object: `template ${id}, wall ${runtime ?? "by the setting"}` });
    return await overviewOf(tables, id, written);
  });
}

async function overviewOf({ templates }: Tables, id: string, written: string): Promise<TemplateOverview> {
  const found = (await templates.overview()).find((template) => template.id === id);
  if (found === undefined) throw notThere(written);
  return found;
}

async function find({ templates }: Tables, homeTeam: string, written: string): Promise<Template> {
  const { namespace, name, tag = DEFAULT_TAG } = parseTemplateReference(written);
  if (tag !== DEFAULT_TAG) {
    throw new Fault(400, `this is set for a template and its tag "${DEFAULT_TAG}"; leave out ":${tag}"`);
  }
  const found =
    namespace === undefined
      ? ((await templates.byBareAlias(homeTeam, name)) ?? (await templates.byId(name)))
      : await templates.byAlias(namespace, name);
  if (found === undefined) throw notThere(written);
  return found;
}

function notThere(written: string): Fault {
  return new Fault(404, `there is no template "${written}"; \`sandlot templates\` lists them`);
}
