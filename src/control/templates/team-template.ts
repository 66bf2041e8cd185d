/**
 * Finds templates of the calling team, for everything that only their team may do. For another team's template the
 * response reveals nothing private: an id is unknown, and only the name of a public template is known.
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

/** A name in the team's own namespace, with its tag. */
export interface OwnName {
  alias: string;
  tag: string;
}

/** Longer than any valid name. */
const SHOWN_MAX_CHARS = 256;

interface OwnTemplate {
  template: Template;
  reference: TemplateReference;
}

/** For changes, by alias or id. Only the team's own namespace is allowed. */
export async function findOwn(tables: Tables, team: Team, written: string): Promise<OwnTemplate> {
  const reference = parseTemplateReference(written);
  refuseForeign(team, reference.namespace);
  return { reference, template: await find(tables, team, reference, written) };
}

/** Finds the team's template to read, by alias or id. */
export async function findOwnToRead(tables: Tables, team: Team, written: string): Promise<OwnTemplate> {
  const reference = parseTemplateReference(written);
  return { reference, template: await find(tables, team, reference, written) };
}

/** A blocked team may read and delete its templates, and remove tags. */
export function refuseBlocked({ limits }: Team): void {
  if (!limits.blocked) return;
  throw new Fault(403, "this team is blocked: its templates can be read and deleted, but not published or tagged");
}

/** Finds the team's template by id only. */
export async function findOwnById(tables: Tables, team: Team, id: string): Promise<Template> {
  const template = await tables.templates.byId(id);
  if (template?.teamId !== team.id) throw notThere(id);
  return template;
}

/**
 * Parses a name that the team gives to a template or a snapshot. A name that looks like a template id is rejected,
 * whether or not that template exists, so the response reveals nothing about other teams.
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
