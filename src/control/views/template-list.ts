/** Lists of templates, and of the builds of one template. */
import { Fault } from "../../contract/fault.ts";
import { TEMPLATE_ID_PATTERN } from "../../contract/ids.ts";
import { PAGE_MAX } from "../../contract/management/limits.ts";
import type {
  PageBuildsQuery,
  PageTemplatesQuery,
  Template,
  TemplateWithBuilds,
} from "../../contract/management/template.ts";
import type { ListedTemplate, TemplatePosition } from "../../store/listed-templates.ts";
import type { Team } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import type { BuiltinDefinition } from "../templates/builtin-definition.ts";
import { findOwnById } from "../templates/team-template.ts";
import { pageOf, readPageToken } from "./page-token.ts";
import { asTemplate, withBuilds } from "./template-view.ts";

const POSITION = new RegExp(`^(\\d{1,15}) (${TEMPLATE_ID_PATTERN})$`);

interface Page<T> {
  shown: T;
  /** Undefined on the last page. */
  nextToken: string | undefined;
}

interface Shown {
  store: Store;
  /** Built-in templates, which every team sees. */
  definitions: readonly BuiltinDefinition[];
}

/** All templates, oldest first. */
export async function listTemplates(
  { store, definitions }: Shown,
  team: Team,
  teamID: string | undefined,
): Promise<Template[]> {
  refuseOtherTeam(team, teamID);
  const all: Template[] = [];
  for (let after: TemplatePosition | undefined; ; ) {
    const some = await store.listedTemplates.page(whose(team, definitions), "asc", after, PAGE_MAX);
    all.push(...some.map((listed) => asTemplate(listed, definitionOf(listed, definitions))));
    after = some.at(-1)?.template;
    if (some.length < PAGE_MAX) return all;
  }
}

/** Newest first. */
export async function pageTemplates(
  { store, definitions }: Shown,
  team: Team,
  query: PageTemplatesQuery,
): Promise<Page<Template[]>> {
  refuseOtherTeam(team, query.teamID);
  const after = query.nextToken ? readPosition(query.nextToken) : undefined;
  const found = await store.listedTemplates.page(whose(team, definitions), "desc", after, query.limit + 1);
  const { page, nextToken } = pageOf(found, query.limit, ({ template }) => `${template.createdAt} ${template.id}`);
  return { shown: page.map((listed) => asTemplate(listed, definitionOf(listed, definitions))), nextToken };
}

/** A template with its builds, newest first. */
export async function readTemplate(
  { store, definitions }: Shown,
  team: Team,
  id: string,
  query: PageBuildsQuery,
): Promise<Page<TemplateWithBuilds>> {
  const before = query.nextToken ? Number(readPageToken(query.nextToken, /^build (\d{1,9})$/)[0]) : undefined;
  if (!definitions.some((definition) => definition.id === id)) await findOwnById(store, team, id);
  const listed = await store.listedTemplates.byId(id);
  if (listed === undefined) throw new Fault(404, `template "${id}" was deleted meanwhile`);
  const found = await store.builds.ofTemplate(id, before, query.limit + 1);
  const { page, nextToken } = pageOf(found, query.limit, ({ number }) => `build ${number}`);
  return { shown: withBuilds(listed, page, definitionOf(listed, definitions)), nextToken };
}

function whose({ id: teamId }: Team, definitions: readonly BuiltinDefinition[]) {
  return { teamId, builtIn: definitions.map(({ id }) => id) };
}

function definitionOf({ template }: ListedTemplate, definitions: readonly BuiltinDefinition[]) {
  return definitions.find(({ id }) => id === template.id);
}

function refuseOtherTeam(team: Team, teamID: string | undefined): void {
  if (teamID === undefined || teamID === "" || teamID.toLowerCase() === team.id) return;
  throw new Fault(400, "teamID is not the team of this API key; leave it out, or send a key of that team");
}

function readPosition(token: string): TemplatePosition {
  const [createdAt, id = ""] = readPageToken(token, POSITION);
  return { createdAt: Number(createdAt), id };
}
