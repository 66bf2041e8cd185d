/** Creates teams and users, and decides which user belongs to which team. */
import type { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { UUID } from "../../contract/management/identifiers.ts";
import { teamName, teamSlug, userEmail } from "../../contract/management/team.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { Team, User } from "../../store/people.ts";
import type { Store, Tables } from "../../store/store.ts";
import { type Recording, record } from "../audit/audit.ts";

/** Created at the first start of every server. */
export const OPERATOR_EMAIL = "operator@localhost";
export const DEFAULT_TEAM_SLUG = "default";

export const TEAMS_MAX = 1_000;
export const USERS_MAX = 10_000;
export const MEMBERS_PER_TEAM_MAX = 500;
/** A login creates a key in each of them. */
export const TEAMS_PER_USER_MAX = 50;

interface PeopleServices extends Recording {
  store: Store;
}

/** Fault 409 if the slug is taken, 429 at the limit. */
export function createTeam(
  services: PeopleServices,
  request: { slug: string; name?: string | undefined },
): Promise<Team> {
  const { store, ids, clock } = services;
  const slug = checked(teamSlug, "team", request.slug);
  const name = checked(teamName, "name of a team", request.name ?? slug);
  return store.transaction(async (tables) => {
    const { people } = tables;
    if ((await people.teamCount()) >= TEAMS_MAX) {
      throw new Fault(429, `the server has ${TEAMS_MAX} teams, the most it may have; delete one first`);
    }
    const team: Team = { id: ids.uuid(), name, slug, limits: {}, createdAt: clock.now(), deletingSince: null };
    if (!(await people.addTeam(team))) {
      throw new Fault(409, `there is already a team "${slug}"; a team that is being deleted keeps its name until then`);
    }
    await record(tables, services, { teamId: team.id, object: `team ${slug}` });
    return team;
  });
}

/** Changes the name that people see. The slug stays, because names of templates begin with it. */
export async function renameTeam(services: PeopleServices, team: Team, name: string): Promise<Team> {
  const renamed = { ...team, name: checked(teamName, "name of a team", name) };
  await services.store.transaction(async (tables) => {
    await tables.people.rename(team.id, renamed.name);
    await record(tables, services, { teamId: team.id, object: `team ${team.slug}` });
  });
  return renamed;
}

/** Fault 409 if there is such a user already, 429 at the limit. */
export function createUser(
  services: PeopleServices,
  request: { email: string; teamIds?: readonly string[] },
): Promise<User> {
  const { store, ids, clock } = services;
  const email = checked(userEmail, "email address", request.email);
  return store.transaction(async (tables) => {
    const { people } = tables;
    if ((await people.userCount()) >= USERS_MAX) {
      throw new Fault(429, `the server has ${USERS_MAX} users, the most it may have; delete one first`);
    }
    const user: User = { id: ids.uuid(), email, createdAt: clock.now() };
    if (!(await people.addUser(user))) throw new Fault(409, `there is already a user "${email}"`);
    for (const teamId of request.teamIds ?? []) await join(tables, user, await teamWithId(tables, teamId));
    await record(tables, services, { teamId: null, object: aboutUser(user) });
    return user;
  });
}

/** What happens to the API keys that a user made: they belong to the teams, so they stay unless they are revoked. */
interface RemovalOptions {
  /** Whether to revoke these keys. */
  revokeKeys: boolean;
}

export interface KeyCounts {
  /** Keys that were revoked, and keys that are still valid. */
  revokedKeys: number;
  validKeys: number;
}

/** With memberships and access tokens. Fault 409 for the operator of the server. */
export function deleteUser(services: PeopleServices, user: User, leaving: RemovalOptions): Promise<KeyCounts> {
  if (user.email === OPERATOR_EMAIL) {
    throw new Fault(409, `"${OPERATOR_EMAIL}" is the server's own user and cannot be deleted`);
  }
  return services.store.transaction(async (tables) => {
    const left = await revokeKeysOf(tables, user, undefined, leaving);
    await tables.people.removeUser(user.id);
    await record(tables, services, { teamId: null, object: aboutUser(user) });
    return left;
  });
}

/** The user's first team becomes the default. Fault 409 for a member, 429 at a limit. */
export function addMember(services: PeopleServices, team: Team, user: User): Promise<void> {
  return services.store.transaction(async (tables) => {
    await join(tables, user, team);
    await record(tables, services, { teamId: team.id, object: aboutUser(user) });
  });
}

async function join(tables: Tables, user: User, team: Team): Promise<void> {
  const { people } = tables;
  await lockTeam(tables, team.id);
  await people.holdUser(user.id);
  const teams = await people.teamsOf(user.id);
  if (teams.some(({ team: { id } }) => id === team.id)) {
    throw new Fault(409, `"${user.email}" is already a member of team "${team.slug}"`);
  }
  if (teams.length >= TEAMS_PER_USER_MAX) {
    throw new Fault(429, `"${user.email}" is in ${TEAMS_PER_USER_MAX} teams, the most a user may be in`);
  }
  if ((await people.membersOf(team.id)).length >= MEMBERS_PER_TEAM_MAX) {
    throw new Fault(429, `team "${team.slug}" has ${MEMBERS_PER_TEAM_MAX} members, the most a team may have`);
  }
  await people.join(user.id, team.id, teams.length === 0);
}

export function removeMember(
  services: PeopleServices,
  team: Team,
  user: User,
  leaving: RemovalOptions,
): Promise<KeyCounts> {
  return services.store.transaction(async (tables) => {
    if (!(await tables.people.leave(user.id, team.id))) throw notMember(user, team);
    await record(tables, services, { teamId: team.id, object: aboutUser(user) });
    return await revokeKeysOf(tables, user, team.id, leaving);
  });
}

/** The team that clients choose for this user, such as `e2b auth login`. */
export function chooseDefault(services: PeopleServices, team: Team, user: User): Promise<void> {
  return services.store.transaction(async (tables) => {
    if ((await tables.people.member(user.id, team.id)) === undefined) throw notMember(user, team);
    await tables.people.prefer(user.id, team.id);
    await record(tables, services, { teamId: team.id, object: aboutUser(user) });
  });
}

async function revokeKeysOf(
  { keys }: Tables,
  user: User,
  teamId: string | undefined,
  leaving: RemovalOptions,
): Promise<KeyCounts> {
  const count = await keys.countApiKeysBy(user.id, teamId);
  if (!leaving.revokeKeys) return { revokedKeys: 0, validKeys: count };
  return { revokedKeys: await keys.removeApiKeysBy(user.id, teamId), validKeys: 0 };
}

/** Fault 404 if there is none, 409 if it is being deleted. */
export async function teamNamed(tables: Pick<Tables, "people">, slug: string): Promise<Team> {
  return requireNotDeleting(await anyTeamNamed(tables, slug));
}

/** As `teamNamed`, also for a team that is being deleted. */
export async function anyTeamNamed({ people }: Pick<Tables, "people">, slug: string): Promise<Team> {
  const team = await people.teamBySlug(slug);
  if (team === undefined) throw new Fault(404, `there is no team ${quoted(slug)}; \`sandlot teams list\` shows them`);
  return team;
}

/** Fault 404 if there is none, 409 if it is being deleted. */
export async function teamWithId(tables: Pick<Tables, "people">, id: string): Promise<Team> {
  return requireNotDeleting(await anyTeamWithId(tables, id));
}

/** As `teamWithId`, also for a team that is being deleted. */
export async function anyTeamWithId({ people }: Pick<Tables, "people">, id: string): Promise<Team> {
  const team = UUID.test(id) ? await people.team(id.toLowerCase()) : undefined;
  if (team === undefined)
    throw new Fault(404, `there is no team with the id ${quoted(id)}; GET /admin/teams lists them`);
  return team;
}

/** Fault 404 if there is none. */
export async function userNamed({ people }: Pick<Tables, "people">, email: string): Promise<User> {
  const user = await people.userByEmail(email.toLowerCase());
  if (user === undefined) throw new Fault(404, `there is no user ${quoted(email)}; \`sandlot users list\` shows them`);
  return user;
}

/** Fault 404 if there is none. */
export async function userWithId({ people }: Pick<Tables, "people">, id: string): Promise<User> {
  const user = UUID.test(id) ? await people.user(id.toLowerCase()) : undefined;
  if (user === undefined)
    throw new Fault(404, `there is no user with the id ${quoted(id)}; GET /admin/users lists them`);
  return user;
}

/** The user's name in the audit log. */
export function aboutUser({ id, email }: User): string {
  return `user ${email} ${id}`;
}

function requireNotDeleting(team: Team): Team {
  if (team.deletingSince === null) return team;
  throw new Fault(409, `team "${team.slug}" is being deleted`);
}

/**
 * Locks a team until the transaction ends, for changes that give it something. Fault 403 if it is being deleted: the
 * request began before that.
 */
export async function lockTeam({ people }: Pick<Tables, "people">, teamId: string): Promise<void> {
  if (!(await people.holdTeam(teamId))) throw new Fault(403, `the team ${teamId} is being deleted`);
}

/**
 * Records that the team and everything that it owns is to be deleted; from then on its requests are rejected. A running
 * server does the rest, also one that starts later. Again for a team that is being deleted: nothing. Fault 409 for the
 * team of the server itself.
 */
export async function beginTeamDeletion(services: PeopleServices, { id, slug }: Team): Promise<void> {
  if (slug === DEFAULT_TEAM_SLUG) {
    throw new Fault(409, `"${slug}" is the server's own team and cannot be deleted; \`sandlot limits\` can block it`);
  }
  await services.store.transaction(async (tables) => {
    if (!(await tables.people.beginDeletion(id, services.clock.now()))) return;
    await record(tables, services, { teamId: id, object: `team ${slug}` });
  });
}

function notMember({ email }: User, { slug }: Team): Fault {
  return new Fault(404, `"${email}" is not a member of team "${slug}"`);
}

function checked<T extends z.ZodType>(schema: T, what: string, value: unknown): z.output<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Fault(400, `invalid ${what}: ${quoted(String(value))}; ${parsed.error.issues[0]?.message}`);
}
