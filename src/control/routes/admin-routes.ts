/** The routes of administrators: teams, users, sandboxes and builds of all teams, and the audit log. */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import {
  type AdminTeam,
  type AdminUser,
  adminApiKey,
  adminCreatedApiKey,
  adminSandbox,
  adminTeam,
  adminUser,
  auditQuery,
  auditView,
  cancelledBuilds,
  changedMember,
  keyCounts,
  killedSandboxes,
  newMember,
  newTeam,
  newUser,
  removalQuery,
  renamedTeam,
  runningCounts,
} from "../../contract/management/admin.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { Team, User } from "../../store/people.ts";
import type { Tables } from "../../store/store.ts";
import { createApiKey, revokeApiKey } from "../access/keys.ts";
import {
  addMember,
  anyTeamWithId,
  chooseDefault,
  createTeam,
  createUser,
  deleteUser,
  removeMember,
  renameTeam,
  teamWithId,
  userWithId,
} from "../access/people.ts";
import { shownState } from "../lifecycle/sandbox-status.ts";
import { listAudit } from "../views/audit-list.ts";
import { NEXT_TOKEN, withToken } from "../views/page-token.ts";
import { asApiKey } from "./key-routes.ts";
import { type Route, route } from "./services.ts";

const teamRoutes: readonly Route[] = [
  route("GET /admin/teams", {
    auth: "admin",
    summary: "List all teams with their members",
    success: [{ status: 200, description: "All teams, by slug", schema: z.array(adminTeam) }],
    async handle(_call, { store }) {
      const body: AdminTeam[] = [];
      for (const team of await store.people.teams()) body.push(await asTeam(store, team));
      return { body };
    },
  }),
  route("POST /admin/teams", {
    auth: "admin",
    summary: "Create a team",
    body: { schema: newTeam, required: true },
    success: [{ status: 201, description: "The new team, without members and keys", schema: adminTeam }],
    errors: [409],
    async handle({ body, origin }, services) {
      return { body: await asTeam(services.store, await createTeam({ ...services, origin }, body)) };
    },
  }),
  route("PATCH /admin/teams/{teamID}", {
    auth: "admin",
    summary: "Change the name of a team that people see",
    body: { schema: renamedTeam, required: true },
    success: [{ status: 200, description: "The team", schema: adminTeam }],
    errors: [409],
    async handle({ params, body, origin }, services) {
      const team = await teamWithId(services.store, params.teamID);
      return { body: await asTeam(services.store, await renameTeam({ ...services, origin }, team, body.name)) };
    },
  }),
  route("DELETE /admin/teams/{teamID}", {
    auth: "admin",
    summary: "Delete a team with everything that it owns, in the background",
    success: [{ status: 202, description: "Recorded; the team is gone once it is not listed", schema: adminTeam }],
    errors: [409],
    async handle({ params, origin }, { store, deleteTeam }) {
      const team = await anyTeamWithId(store, params.teamID);
      await deleteTeam(team, origin);
      return { body: { ...(await asTeam(store, team)), state: "deleting" } };
    },
  }),
  route("POST /admin/teams/{teamID}/members", {
    auth: "admin",
    summary: "Make a user a member of a team",
    body: { schema: newMember, required: true },
    success: [{ status: 204, description: "The user is a member" }],
    errors: [409],
    async handle({ params, body, origin }, services) {
      const [team, user] = [
        await teamWithId(services.store, params.teamID),
        await userWithId(services.store, body.userID),
      ];
      await addMember({ ...services, origin }, team, user);
      return {};
    },
  }),
  route("PATCH /admin/teams/{teamID}/members/{userID}", {
    auth: "admin",
    summary: "Make the team the user's default",
    body: { schema: changedMember, required: true },
    success: [{ status: 204, description: "Set" }],
    errors: [409],
    async handle({ params, origin }, services) {
      const [team, user] = [
        await teamWithId(services.store, params.teamID),
        await userWithId(services.store, params.userID),
      ];
      await chooseDefault({ ...services, origin }, team, user);
      return {};
    },
  }),
  route("DELETE /admin/teams/{teamID}/members/{userID}", {
    auth: "admin",
    summary: "Remove a user from a team",
    query: removalQuery,
    success: [{ status: 200, description: "The API keys that the user made", schema: keyCounts }],
    errors: [409],
    async handle({ params, query, origin }, services) {
      const [team, user] = [
        await teamWithId(services.store, params.teamID),
        await userWithId(services.store, params.userID),
      ];
      const revokeKeys = query.revokeKeys === "true";
      return { body: await removeMember({ ...services, origin }, team, user, { revokeKeys }) };
    },
  }),
  route("POST /admin/teams/{teamID}/api-keys", {
    auth: "admin",
    summary: "Create an API key for a team; only this response contains it",
    body: { schema: adminApiKey, required: true },
    success: [{ status: 201, description: "The new API key", schema: adminCreatedApiKey }],
    errors: [409],
    async handle({ params, body, origin }, services) {
      const { id: teamId } = await teamWithId(services.store, params.teamID);
      const request = { teamId, name: body.name, createdBy: null };
      const { secret, key } = await createApiKey({ ...services, origin }, request);
      return { body: { ...asApiKey({ ...key, creatorEmail: null }), key: secret } };
    },
  }),
  route("DELETE /admin/teams/{teamID}/api-keys/{apiKeyID}", {
    auth: "admin",
    summary: "Delete an API key of a team",
    success: [{ status: 204, description: "Deleted; it stops working with the next request" }],
    errors: [409],
    async handle({ params, origin }, services) {
      const { id } = await teamWithId(services.store, params.teamID);
      await revokeApiKey({ ...services, origin }, id, params.apiKeyID);
    },
  }),
];

const userRoutes: readonly Route[] = [
  route("GET /admin/users", {
    auth: "admin",
    summary: "List all users with their teams",
    success: [{ status: 200, description: "All users, by email address", schema: z.array(adminUser) }],
    async handle(_call, { store }) {
      const body: AdminUser[] = [];
      for (const user of await store.people.users()) body.push(await asUser(store, user));
      return { body };
    },
  }),
  route("POST /admin/users", {
    auth: "admin",
    summary: "Create a user, as a member of teams",
    body: { schema: newUser, required: true },
    success: [{ status: 201, description: "The new user", schema: adminUser }],
    errors: [404, 409],
    async handle({ body: { email, teamIDs = [] }, origin }, services) {
      const user = await createUser({ ...services, origin }, { email, teamIds: teamIDs });
      return { body: await asUser(services.store, user) };
    },
  }),
  route("DELETE /admin/users/{userID}", {
    auth: "admin",
    summary: "Delete a user with all access tokens",
    query: removalQuery,
    success: [{ status: 200, description: "The API keys that the user made", schema: keyCounts }],
    errors: [409],
    async handle({ params, query, origin }, services) {
      const user = await userWithId(services.store, params.userID);
      return { body: await deleteUser({ ...services, origin }, user, { revokeKeys: query.revokeKeys === "true" }) };
    },
  }),
];

const operationRoutes: readonly Route[] = [
  route("POST /admin/teams/{teamID}/sandboxes/kill", {
    auth: "admin",
    summary: "Kill all sandboxes of a team, running and paused",
    success: [{ status: 200, description: "How many are gone, and how many are not yet", schema: killedSandboxes }],
    errors: [409],
    async handle({ params }, { store, lifecycle }) {
      const { gone, left } = await lifecycle.killAll(await teamWithId(store, params.teamID));
      return { body: { killedCount: gone, failedCount: left } };
    },
  }),
  route("POST /admin/teams/{teamID}/builds/cancel", {
    auth: "admin",
    summary: "Cancel all template builds of a team, started or not",
    success: [{ status: 200, description: "How many were cancelled", schema: cancelledBuilds }],
    errors: [409],
    async handle({ params }, { store, builds }) {
      const team = await teamWithId(store, params.teamID);
      const ids = await builds.cancelAll(team.id, "an administrator cancelled the builds of the team");
      return { body: { cancelledCount: ids.length, failedCount: 0 } };
    },
  }),
  route("GET /admin/sandboxes/running-counts", {
    auth: "admin",
    summary: "Count the running sandboxes of each team",
    success: [{ status: 200, description: "By team id; teams without any are left out", schema: runningCounts }],
    async handle(_call, { store, clock }) {
      return { body: await store.sandboxes.runningByTeam(clock.now()) };
    },
  }),
  route("GET /admin/sandboxes/{sandboxID}", {
    auth: "admin",
    summary: "Get the team and the state of a sandbox",
    success: [{ status: 200, description: "The sandbox", schema: adminSandbox }],
    async handle({ params: { sandboxID } }, { store, clock }) {
      const sandbox = await store.sandboxes.byId(sandboxID);
      if (sandbox === undefined) throw new Fault(404, `there is no sandbox ${quoted(sandboxID)}`);
      const state = shownState(sandbox, clock.now()) ?? "killed";
      return { body: { sandboxID, teamID: sandbox.teamId, state } };
    },
  }),
  route("GET /admin/audit", {
    auth: "admin",
    summary: "List changes page by page, newest first: who, what, from where, with which result",
    query: auditQuery,
    success: [{ status: 200, description: "A page", schema: z.array(auditView), headers: NEXT_TOKEN }],
    async handle({ query }, { store }) {
      const { page, nextToken } = await listAudit(store, query);
      return { body: page, headers: withToken(nextToken) };
    },
  }),
];

export const adminRoutes: readonly Route[] = [...teamRoutes, ...userRoutes, ...operationRoutes];

async function asTeam({ people, keys }: Pick<Tables, "people" | "keys">, team: Team): Promise<AdminTeam> {
  const { id, slug, name, createdAt, deletingSince } = team;
  return {
    teamID: id,
    slug,
    name,
    createdAt: new Date(createdAt).toISOString(),
    state: deletingSince === null ? "active" : "deleting",
    apiKeyCount: await keys.countApiKeys(id),
    members: (await people.membersOf(id)).map(({ id: userID, email }) => ({ userID, email })),
  };
}

async function asUser({ people }: Pick<Tables, "people">, { id, email, createdAt }: User): Promise<AdminUser> {
  const memberships = await people.teamsOf(id);
  return {
    userID: id,
    email,
    createdAt: new Date(createdAt).toISOString(),
    teams: memberships.map(({ team, isDefault }) => ({ teamID: team.id, slug: team.slug, isDefault })),
  };
}
