/** Bounds of teams, users and memberships. What the commands do with them is in `src/cli/people.root.test.ts`. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Team, User } from "../../store/people.ts";
import { ControlFixture, NOW } from "../testing/control-fixture.ts";
import {
  addMember,
  createTeam,
  createUser,
  MEMBERS_PER_TEAM_MAX,
  removeMember,
  TEAMS_MAX,
  TEAMS_PER_USER_MAX,
  USERS_MAX,
} from "./people.ts";

let f: ControlFixture;
beforeEach(async () => {
  f = await ControlFixture.open();
});
afterEach(() => f[Symbol.asyncDispose]());

async function fill(count: number, add: (store: ControlFixture["store"], nth: number) => Promise<unknown>) {
  await f.store.transaction(async (tables) => {
    for (let nth = 0; nth < count; nth++) await add(tables as ControlFixture["store"], nth);
  });
}

const team = (nth: number): Team => {
  return { id: `t${nth}`, name: "t", slug: `t${nth}`, limits: {}, createdAt: NOW, deletingSince: null };
};
const user = (nth: number): User => ({ id: `u${nth}`, email: `${nth}@example.com`, createdAt: NOW });

test("a 1,001st team and a 10,001st user are rejected", async () => {
  await fill(TEAMS_MAX - 2, (store, nth) => store.people.addTeam(team(nth)));
  await fill(USERS_MAX - 2, (store, nth) => store.people.addUser(user(nth)));
  await createTeam(f, { slug: "last" });
  await createUser(f, { email: "last@example.com" });
  await expect(createTeam(f, { slug: "more" })).rejects.toMatchObject({ status: 429 });
  await expect(createUser(f, { email: "more@example.com" })).rejects.toMatchObject({ status: 429 });
});

test("a 501st member of a team is rejected, and creates no user", async () => {
  const full = await createTeam(f, { slug: "full" });
  await fill(MEMBERS_PER_TEAM_MAX, async ({ people }, nth) => {
    await people.addUser(user(nth));
    await people.join(user(nth).id, full.id, true);
  });
  const request = { email: "more@example.com", teamIds: [full.id] };
  await expect(createUser(f, request)).rejects.toMatchObject({ status: 429, message: expect.stringContaining("full") });
  expect(await f.store.people.userByEmail("more@example.com")).toBeUndefined();
  await removeMember(f, full, user(0), { revokeKeys: false });
  await createUser(f, request);
});

test("a user's 51st team is rejected, and the first is the default", async () => {
  const busy = await createUser(f, { email: "busy@example.com" });
  await fill(TEAMS_PER_USER_MAX + 1, (store, nth) => store.people.addTeam(team(nth)));
  for (let nth = TEAMS_PER_USER_MAX; nth > 0; nth--) await addMember(f, team(nth), busy);
  await expect(addMember(f, team(0), busy)).rejects.toMatchObject({ status: 429 });
  const [first] = await f.store.people.teamsOf(busy.id);
  expect(first).toMatchObject({ team: { slug: `t${TEAMS_PER_USER_MAX}` }, isDefault: true });
});
