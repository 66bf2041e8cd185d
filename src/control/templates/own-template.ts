/**
 * Templates of the team that asks, for all that only their team may do with them. Who asks for another team's learns no
 * more than anybody may know: by id there is none, and by name only a public one.
 */
import { Fault } from "../../contract/fault.ts";
import type { Team } from "../../store/people.ts";
import type { Tables } from "../../store/store.ts";
import type { Template } from "../../store/templates.ts";
import {
  DEFAULT_TAG,
  isLikeTemplateId,
  parseTag,
  parseTemplateReference,
  type TemplateReference,
} from "./template-reference.ts";

/** A name of the team's own namespace, with the tag that it is asked for under. */
export interface OwnName {
  alias: string;
  tag: string;
}

/** Longer than any name that there is. */
const SHOWN_MAX_CHARS = 256;

interface OwnTemplate {
  template: Template;
  reference: TemplateReference;
}

/** To change it, by alias or id. A namespace can only be the team's own. */
export async function findOwn(tables: Tables, team: Team, written: string): Promise<OwnTemplate> {
  const reference = parseTemplateReference(written);
  refuseForeign(team, reference.namespace);
  return { reference, template: await find(tables, team, reference, written) };
}

/** To look at it, by alias or id. */
export async function findOwnToRead(tables: Tables, team: Team, written: string): Promise<OwnTemplate> {
  const reference = parseTemplateReference(written);
  return { reference, template: await find(tables, team, reference, written) };
}

/** A blocked team may look at its templates and delete them, and take tags away. */
export function refuseBlocked({ limits }: Team): void {
  if (!limits.blocked) return;
  throw new Fault(403, "this team is blocked: its templates can be read and deleted, but not published or tagged");
}

/** By its id and nothing else. */
export async function findOwnById(tables: Tables, team: Team, id: string): Promise<Template> {
  const template = await tables.templates.byId(id);
  if (template?.teamId !== team.id) throw notThere(id);
  return template;
}

/**
 * As the team names a template or a snapshot. A name with the form of a template id is refused, whether or not there is
 * such a template: the answer tells nothing about templates of other teams.
 */
export function parseOwnName(team: Team, written: string): OwnName {
  const { namespace, name, tag = DEFAULT_TAG } = parseTemplateReference(written);
  refuseForeign(team, namespace);
  if (isLikeTemplateId(name)) {
    throw new Fault(
      400,
      `the name "${name}" has the form of a template id (20 characters of a-z and 0-9); choose another, for example with a "-" in it`,
    );
  }
  return { alias: name, tag: parseTag(tag) };
}

async function find(tables: Tables, team: Team, reference: TemplateReference, written: string): Promise<Template> {
  const { namespace, name } = reference;
  const byAlias =
    namespace === undefined
      ? await tables.templates.byBareAlias(team.slug, name)
      : await tables.templates.byAlias(namespace, name);
  const found = byAlias ?? (namespace === undefined ? await tables.templates.byId(name) : undefined);
  if (found?.teamId === team.id) return found;
  if (found?.teamId === null) throw new Fault(403, `template "${written}" is built in and belongs to no team`);
  if (byAlias?.public) throw new Fault(403, `template "${written}" belongs to another team`);
  throw notThere(written);
}

function refuseForeign(team: Team, namespace: string | undefined): void {
  if (namespace === undefined || namespace === team.slug) return;
  throw new Fault(400, `the namespace "${namespace}" is not this team's; write "${team.slug}/…" or leave it out`);
}

function notThere(written: string): Fault {
  const shown = written.length > SHOWN_MAX_CHARS ? `${written.slice(0, SHOWN_MAX_CHARS)}…` : written;
  return new Fault(404, `template "${shown}" does not exist`);
}
