/** `sandlot teams …` and `sandlot users …`: teams, users, and which user belongs to which team. */
import {
  addMember,
  chooseDefault,
  createTeam,
  createUser,
  deleteUser,
  type KeyCounts,
  removeMember,
  renameTeam,
  teamNamed,
  userNamed,
} from "../../control/access/people.ts";
import type { Team, User } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import { isoTime } from "../iso-time.ts";
import type { Config } from "../settings/config.ts";
import { printFromStore, recording } from "../with-store.ts";

export function listTeams(config: Config): Promise<number> {
  return printFromStore(
    config,
    async (store) => {
      const lines = [];
      for (const team of await store.people.teams()) {
        const [members, keys] = [await store.people.membersOf(team.id), await store.keys.countApiKeys(team.id)];
        const emails = members.map(({ email }) => email).join(" ");
        const state = team.deletingSince === null ? [] : [`being deleted since ${isoTime(team.deletingSince)}`];
        lines.push([team.slug, team.id, `keys=${keys}`, `members=${emails || "none"}`, ...state, team.name].join("  "));
      }
      return lines;
    },
    "no teams",
  );
}

export function addTeam(config: Config, slug: string, name: string | undefined): Promise<number> {
  return printFromStore(config, async (store) => {
    const team = await createTeam(recording(store, "teams create"), { slug, name });
    return [`created team ${team.slug}  ${team.id}`];
  });
}

export function changeTeamName(config: Config, slug: string, name: string): Promise<number> {
  return printFromStore(config, async (store) => {
    const team = await renameTeam(recording(store, "teams rename"), await teamNamed(store, slug), name);
    return [`team ${team.slug} is now called ${team.name}`];
  });
}

export function listUsers(config: Config): Promise<number> {
  return printFromStore(
    config,
    async (store) => {
      const lines = [];
      for (const user of await store.people.users()) {
        const teams = (await store.people.teamsOf(user.id)).map(({ team }) => team.slug);
        lines.push(`${user.email}  ${user.id}  teams=${teams.join(" ") || "none"}`);
      }
      return lines;
    },
    "no users",
  );
}

export function addUser(config: Config, email: string, slugs: readonly string[]): Promise<number> {
  return printFromStore(config, async (store) => {
    const teams = [];
    for (const slug of slugs) teams.push(await teamNamed(store, slug));
    const user = await createUser(recording(store, "users create"), { email, teamIds: teams.map(({ id }) => id) });
    return [`created user ${user.email}  ${user.id}`];
  });
}

export function removeUser(config: Config, email: string, revokeKeys: boolean): Promise<number> {
  return printFromStore(config, async (store) => {
    const left = await deleteUser(recording(store, "users delete"), await userNamed(store, email), { revokeKeys });
    return [`deleted user ${email}`, ...aboutKeys(left)];
  });
}

export function joinTeam(config: Config, email: string, slug: string): Promise<number> {
  return withMember(config, email, slug, async (store, team, user) => {
    await addMember(recording(store, "users join"), team, user);
    return [`${user.email} is a member of team ${team.slug}`];
  });
}

export function leaveTeam(config: Config, email: string, slug: string, revokeKeys: boolean): Promise<number> {
  return withMember(config, email, slug, async (store, team, user) => {
    const left = await removeMember(recording(store, "users leave"), team, user, { revokeKeys });
    return [`${user.email} is no member of team ${team.slug}`, ...aboutKeys(left)];
  });
}

export function preferTeam(config: Config, email: string, slug: string): Promise<number> {
  return withMember(config, email, slug, async (store, team, user) => {
    await chooseDefault(recording(store, "users default"), team, user);
    return [`${team.slug} is the default team of ${user.email}`];
  });
}

function withMember(
  config: Config,
  email: string,
  slug: string,
  work: (store: Store, team: Team, user: User) => Promise<string[]>,
): Promise<number> {
  return printFromStore(config, async (store) =>
    work(store, await teamNamed(store, slug), await userNamed(store, email)),
  );
}

function aboutKeys({ revokedKeys, validKeys }: KeyCounts): string[] {
  if (validKeys > 0) {
    return [`still valid: ${validKeys} API keys that this user made; \`sandlot keys list --team TEAM\` shows keys`];
  }
  return revokedKeys > 0 ? [`revoked ${revokedKeys} API keys that this user made`] : [];
}
