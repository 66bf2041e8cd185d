import { expect, test } from "bun:test";
import type { LogEntry } from "../../base/log.ts";
import { BASE_TEMPLATE } from "../../contract/management/base-template.ts";
import type { Team } from "../../store/people.ts";
import { kindForTeam, kindsKeptReady, requireTeams, warnOfLimits } from "./shared-memory.ts";

const kind = { ...BASE_TEMPLATE, templateId: "base", image: "base" };
const team = (slug: string, sharedMemory?: boolean): Team => ({
  id: slug,
  name: slug,
  slug,
  limits: sharedMemory === undefined ? {} : { sharedMemory },
  createdAt: 0,
  deletingSince: null,
});

test.each([
  ["off", team("one"), undefined],
  ["off", team("one", true), true],
  ["all", team("one"), true],
  ["all", team("one", false), undefined],
  [["one", "two"], team("two"), true],
  [["one", "two"], team("three"), undefined],
] as const)(
  "with the setting %p, a team shares memory as its own limit says, or as the setting says",
  (setting, of, shares) => {
    expect(kindForTeam(kind, of, setting).sharesMemory).toBe(shares);
  },
);

test("the ready pool holds sandboxes for both groups only if there are two", () => {
  const shares = (setting: Parameters<typeof kindsKeptReady>[1]) =>
    kindsKeptReady(kind, setting).map(({ sharesMemory }) => sharesMemory);
  expect([shares("off"), shares("all"), shares(["one"])]).toEqual([[undefined], [true], [undefined, true]]);
});

test("a setting with the name of no team is refused, and names it", () => {
  const teams = [team("one"), team("two")];
  expect(() => requireTeams(["two", "tow"], teams)).toThrow('sharedMemory names "tow", which is not a team');
  for (const setting of ["off", "all", ["one"]] as const) expect(() => requireTeams(setting, teams)).not.toThrow();
});

test("limits that have no effect are logged with their teams", () => {
  const teams: unknown[] = [];
  const log = { write: ({ team: of }: LogEntry) => void teams.push(of) };
  warnOfLimits([team("one"), team("two", true), team("three", false)], log);
  expect(teams).toEqual(["two"]);
});
