/** `sandlot teams`, `sandlot users` and keys of other teams, without a server. */
import { expect, test } from "bun:test";
import { commandOnStore } from "../testing/command-on-store.ts";

const sandlot = commandOnStore();
const UUID = /[0-9a-f]{8}(-[0-9a-f]{4,12}){4}/g;

async function lines(...args: string[]): Promise<string[]> {
  const { code, out, error } = await sandlot(...args);
  expect([args, code, error]).toEqual([args, 0, ""]);
  return out.map((line) => line.replaceAll(UUID, "ID"));
}

test("a team gets a name, keys and members, who get tokens", async () => {
  expect(await lines("teams", "create", "red")).toEqual(["created team red  ID"]);
  expect(await lines("teams", "create", "blue", "Blue Whales")).toEqual(["created team blue  ID"]);
  expect(await lines("teams", "rename", "red", "Red Pandas")).toEqual(["team red is now called Red Pandas"]);
  expect(await lines("users", "create", "Ada@Example.com", "red", "blue")).toEqual([
    "created user ada@example.com  ID",
  ]);
  expect(await lines("users", "default", "ada@example.com", "blue")).toEqual([
    "blue is the default team of ada@example.com",
  ]);

  const [key = ""] = (await sandlot("keys", "create", "ci", "--team", "red", "--user", "ada@example.com")).out;
  expect(key).toMatch(/^e2b_[0-9a-f]{40}$/);
  expect((await sandlot("keys", "token", "--user", "ada@example.com")).out[0]).toMatch(/^sk_e2b_/);
  const [listed = "", ...others] = await lines("keys", "list", "--team", "red");
  expect([listed.includes("  ci"), others]).toEqual([true, []]);
  expect(await lines("keys", "list", "--team", "red", "--user", "ada@example.com")).toHaveLength(2);
  expect((await lines("keys", "list")).join()).not.toContain(" ci");

  expect(await lines("teams", "list")).toEqual([
    "blue  ID  keys=0  members=ada@example.com  Blue Whales",
    "default  ID  keys=1  members=operator@localhost  default",
    "red  ID  keys=1  members=ada@example.com  Red Pandas",
  ]);
  expect(await lines("users", "list")).toEqual([
    "ada@example.com  ID  teams=blue red",
    "operator@localhost  ID  teams=default",
  ]);

  expect(await lines("users", "leave", "ada@example.com", "blue")).toEqual([
    "ada@example.com is no member of team blue",
  ]);
  expect(await lines("users", "join", "ada@example.com", "default")).toEqual([
    "ada@example.com is a member of team default",
  ]);
  expect((await lines("users", "delete", "ada@example.com"))[1]).toStartWith("still valid: 1 API keys");
  const { id = "" } = /^(?<id>\S+)/.exec((await sandlot("keys", "list", "--team", "red")).out[0] ?? "")?.groups ?? {};
  expect(await lines("keys", "revoke", id, "--team", "red")).toEqual(["revoked ID"]);
});

test("a password is read from standard input, and removed again", async () => {
  await lines("users", "create", "zoe@example.com");
  const set = await sandlot.withInput("a long password\nmore\n", "users", "password", "ZOE@example.com");
  expect([set.code, set.out]).toEqual([0, ["set the password of zoe@example.com, and ended its logins"]]);
  const short = await sandlot.withInput("short\n", "users", "password", "zoe@example.com");
  expect([short.code === 0, short.error.includes("12 to 256 characters, this one has 5")]).toEqual([false, true]);
  const remove = () => lines("users", "password", "zoe@example.com", "--remove");
  expect(await remove()).toEqual(["zoe@example.com has no password any more"]);
  expect(await remove()).toEqual(["zoe@example.com had no password"]);
});

test("a team is deleted by the next start; until then it is listed as such, and takes nothing", async () => {
  await lines("teams", "create", "brown");
  const said = "no server runs: the next start deletes team brown with everything that it owns";
  expect(await lines("teams", "delete", "brown")).toEqual([said]);
  expect(await lines("teams", "delete", "brown")).toEqual([said]);
  expect((await lines("teams", "list")).join()).toMatch(/brown {2}ID .* being deleted since 20\d\d-/);
  for (const args of [
    ["keys", "create", "--team", "brown"],
    ["users", "join", "operator@localhost", "brown"],
    ["teams", "rename", "brown", "x"],
  ]) {
    const { code, error } = await sandlot(...args);
    expect([args, code, error]).toEqual([args, 1, expect.stringContaining('team "brown" is being deleted')]);
  }
  expect((await lines("audit", "--limit", "100")).filter((line) => line.includes("teams delete"))).toHaveLength(1);
});

test("a user that leaves may take its keys along", async () => {
  await lines("users", "create", "eve@example.com", "default");
  await lines("keys", "create", "hers", "--user", "eve@example.com");
  expect(await lines("users", "leave", "eve@example.com", "default", "--keys")).toEqual([
    "eve@example.com is no member of team default",
    "revoked 1 API keys that this user made",
  ]);
  expect((await lines("keys", "list")).join()).not.toContain("hers");
});

test("rejects unusable names, and teams and users that are not there", async () => {
  for (const [args, message] of [
    [["teams", "create", "Red"], 'invalid team: "Red"; must consist of a-z, 0-9, - and _'],
    [["teams", "create", "default"], 'there is already a team "default"'],
    [["teams", "rename", "default", "\u001b[2J"], "must not hold control characters"],
    [["teams", "rename", "green", "x"], 'there is no team "green"; `sandlot teams list` shows them'],
    [["teams", "delete", "green"], 'there is no team "green"; `sandlot teams list` shows them'],
    [["teams", "delete", "default"], "is the server's own team and cannot be deleted"],
    [["users", "create", "ada"], 'invalid email address: "ada"; must be an email address'],
    [["users", "create", "operator@localhost"], 'there is already a user "operator@localhost"'],
    [["users", "create", "bob@example.com", "green"], 'there is no team "green"'],
    [["users", "delete", "bob@example.com"], 'there is no user "bob@example.com"'],
    [["users", "delete", "operator@localhost"], "cannot be deleted"],
    [["users", "join", "operator@localhost", "default"], 'already a member of team "default"'],
    [["keys", "create", "--team", "green"], 'there is no team "green"'],
    [["keys", "token", "--user", "bob@example.com"], 'there is no user "bob@example.com"'],
  ] as const) {
    const { code, error } = await sandlot(...args);
    expect([args, code, error]).toEqual([args, 1, expect.stringContaining(message)]);
  }
});

test("an empty list prints no line, and says on standard error that it is empty", async () => {
  await lines("teams", "create", "empty");
  for (const [args, error] of [
    [["keys", "list", "--team", "empty"], "no API keys or access tokens"],
    [["admin", "list"], "no admin tokens"],
    [["audit", "--object", "nothing"], "no entries in the audit log match"],
  ] as const) {
    expect(await sandlot(...args)).toEqual({ code: 0, out: [""], error });
  }
});

test("admin tokens are shown once, listed masked and revoked; the audit log has it all", async () => {
  const [token = ""] = (await sandlot("admin", "create", "console")).out;
  expect(token).toMatch(/^sandlot_admin_[0-9a-f]{40}$/);
  const [listed = ""] = (await sandlot("admin", "list")).out;
  expect(listed).toContain(`sandlot_admin_${token.slice(14, 16)}…${token.slice(-4)}`);
  const [id = ""] = listed.split(" ");
  expect(await lines("admin", "revoke", id)).toEqual(["revoked ID"]);
  await lines("teams", "create", "audited");
  const seen = (await sandlot("audit", "--limit", "3")).out;
  expect(seen.map((line) => line.replace(/^\S+Z {2}/, "").replaceAll(UUID, "ID"))).toEqual([
    "200  root  sandlot teams create  team=ID  team audited",
    "200  root  sandlot admin revoke  ID",
    "200  root  sandlot admin create  ID",
  ]);
  expect((await sandlot("audit", "--team", "audited")).out).toHaveLength(1);
  const [json = ""] = (await sandlot("audit", "--json", "--limit", "1")).out;
  expect(JSON.parse(json)).toMatchObject({ action: "sandlot teams create", actor: { kind: "root" } });
  const { code, error } = await sandlot("audit", "--limit", "0");
  expect([code, error]).toEqual([1, expect.stringContaining("--limit must be a whole number from 1 to 10000")]);
});
