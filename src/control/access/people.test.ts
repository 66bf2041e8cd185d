/** Bounds of teams, users and memberships. `src/cli/commands/people.root.test.ts` tests the commands for them. */
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

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

async function fill(count: number, add: (store: ControlFixture["store"], nth: number) => Promise<unknown>) {
  await fixture.store.transaction(async (tables) => {
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
  await createTeam(fixture, { slug: "last" });
  await createUser(fixture, { email: "last@example.com" });
  await expect(createTeam(fixture, { slug: "more" })).rejects.toMatchObject({ status: 429 });
  await expect(createUser(fixture, { email: "more@example.com" })).rejects.toMatchObject({ status: 429 });
});

test("a 501st member of a team is rejected, and creates no user", async () => {
  const full = await createTeam(fixture, { slug: "full" });
  await fill(MEMBERS_PER_TEAM_MAX, async ({ people }, nth) => {
    await people.addUser(user(nth));
    await people.join(user(nth).id, full.id, true);
  });
  const request = { email: "more@example.com", teamIds: [full.id] };
  await expect(createUser(fixture, request)).rejects.toMatchObject({
    status: 429,
    message: expect.stringContaining("full"),
  });
  expect(await fixture.store.people.userByEmail("more@example.com")).toBeUndefined();
  await removeMember(fixture, full, user(0), { revokeKeys: false });
  await createUser(fixture, request);
});

test("a user's 51st team is rejected, and the first is the default", async () => {
  const busy = await createUser(fixture, { email: "busy@example.com" });
  await fill(TEAMS_PER_USER_MAX + 1, (store, nth) => store.people.addTeam(team(nth)));
  for (let nth = TEAMS_PER_USER_MAX; nth > 0; nth--) await addMember(fixture, team(nth), busy);
  await expect(addMember(fixture, team(0), busy)).rejects.toMatchObject({ status: 429 });
  const [first] = await fixture.store.people.teamsOf(busy.id);
  expect(first).toMatchObject({ team: { slug: `t${TEAMS_PER_USER_MAX}` }, isDefault: true });
});
