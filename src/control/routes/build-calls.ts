/** Steps that several build routes share. */
import type { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { UUID } from "../../contract/management/identifiers.ts";
import { CPU_COUNT_DEFAULT, DISK_SIZE_DEFAULT_MB, MEMORY_DEFAULT_MB } from "../../contract/management/limits.ts";
import type { AcceptedTemplate, buildDockerfile } from "../../contract/management/template-build.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { Build } from "../../store/builds.ts";
import type { Team } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import { planOfDockerfile } from "../builds/build-plan.ts";
import type { RequestedBuild } from "../builds/build-request.ts";
import type { Builds } from "../builds/builds.ts";
import { findOwnById } from "../templates/team-template.ts";
import { asAccepted } from "../views/build-view.ts";

type Params = Readonly<Record<"templateID" | "buildID", string>>;

/** Resources of a request, with defaults for absent fields. */
export function sizeOf(body: { cpuCount?: number | null | undefined; memoryMB?: number | null | undefined }) {
  return {
    cpuCount: body.cpuCount ?? CPU_COUNT_DEFAULT,
    memoryMB: body.memoryMB ?? MEMORY_DEFAULT_MB,
    diskSizeMB: DISK_SIZE_DEFAULT_MB,
  };
}

export function refuseForeignTeam(team: Team, teamId: string | null | undefined): void {
  if (!teamId || teamId === team.id) return;
  throw new Fault(400, "teamID is not the team of the API key; leave it out, or send a key of that team");
}

/** The response of the v1 and v2 routes. */
export async function accepted(store: Store, { template, build }: RequestedBuild): Promise<AcceptedTemplate> {
  const listed = await store.listedTemplates.byId(template.id);
  if (listed === undefined) throw new Fault(404, `template "${template.id}" was deleted meanwhile`);
  return asAccepted(listed, build);
}

/** Builds a Dockerfile for one of the user's teams, as a new template unless an id is given. */
export async function dockerfileBuild(
  { store, builds }: { store: Store; builds: Builds },
  userId: string,
  body: z.infer<typeof buildDockerfile>,
  templateId?: string,
): Promise<AcceptedTemplate> {
  const team = await teamOf(store, userId, body.teamID || undefined, templateId);
  const plan = planOfDockerfile(body.dockerfile, body, builds.limits.stepsMax);
  const request = { team, userId, generation: 1 as const, templateId, name: body.alias || undefined, tags: [] };
  return accepted(store, await builds.requestAndStart({ ...request, ...sizeOf(body) }, plan));
}

/** The named team, else the owner of the template, else the user's default team. */
async function teamOf(
  store: Store,
  userId: string,
  teamId: string | undefined,
  templateId: string | undefined,
): Promise<Team> {
  const memberships = await store.people.teamsOf(userId);
  const named = memberships.find(({ team }) => team.id === teamId);
  if (teamId !== undefined && named === undefined) throw new Fault(403, "teamID is not a team of the token's user");
  const owner = templateId === undefined ? undefined : (await store.templates.byId(templateId))?.teamId;
  const byTemplate = memberships.find(({ team }) => team.id === owner);
  const found = named ?? byTemplate ?? memberships[0];
  if (found === undefined) throw new Fault(403, "the token's user belongs to no team");
  return found.team;
}

/** A build of a template of the team. `unknown` is the status for a build id that the template does not have. */
export async function findOwnBuild(store: Store, team: Team, params: Params, unknown: 400 | 404): Promise<Build> {
  const template = await findOwnById(store, team, params.templateID);
  const written = params.buildID;
  if (!UUID.test(written)) throw new Fault(400, `invalid build id ${quoted(written)}; it is a UUID`);
  const build = await store.builds.byId(written.toLowerCase());
  if (build?.templateId === template.id) return build;
  throw new Fault(unknown, `template "${template.id}" has no build "${written}"`);
}

/** As `findOwnBuild`, for a template of any team of the user. */
export async function findUsersBuild(store: Store, userId: string, params: Params): Promise<Build> {
  const team = await teamOf(store, userId, undefined, params.templateID);
  return findOwnBuild(store, team, params, 404);
}
