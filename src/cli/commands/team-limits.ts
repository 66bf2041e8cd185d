/** `sandlot limits …`: limits of teams, shown as they are set. They apply from the next request on. */
import { Fault } from "../../contract/fault.ts";
import { INT32_MAX } from "../../contract/limits.ts";
import { record } from "../../control/audit/audit.ts";
import type { Team } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import type { TeamLimits } from "../../store/team-limits.ts";
import { requireMerging } from "../../system/page-merging.ts";
import { type Config, parsePrivate, requireMergeable } from "../settings/config.ts";
import { printFromStore, recording } from "../with-store.ts";
import { limitTable } from "./limit-table.ts";

const HOUR_SECONDS = 3600;
const TAKEN =
  "sandboxes=N|none, hours=H|none, builds=N|usual, reads=N|usual, changes=N|usual, secrets=N|usual, secretVersions=N|usual, private=RANGES|none|usual, " +
  "sharedMemory=on|off|usual and blocked=yes|no";
const NONE = "none";
/** The server's default. */
const USUAL = "usual";
const USUAL_ONES = ["builds", "reads", "changes", "secrets", "secretVersions"] as const;

export async function limits(config: Config, args: readonly string[]): Promise<number> {
  const [slug, ...words] = args;
  const changes = parseLimits(words);
  if (changes.sharedMemory) {
    requireMergeable("sharedMemory=on", config.runtime);
    await requireMerging(`sharedMemory=on for ${slug}`);
  }
  return await printFromStore(config, async (store) => {
    const teams = slug === undefined ? await store.people.teams() : [await change(store, slug, changes)];
    return teams.map(teamLine);
  });
}

export function showAll(): number {
  console.log(limitTable());
  return 0;
}

/** The named limits; undefined removes one. */
export function parseLimits(words: readonly string[]): TeamLimits {
  const changes: { -readonly [member in keyof TeamLimits]: TeamLimits[member] } = {};
  for (const word of words) {
    const [, name = "", value = ""] = /^(\w+)=(.*)$/.exec(word) ?? [];
    const usual = USUAL_ONES.find((member) => member === name);
    if (usual !== undefined) changes[usual] = value === USUAL ? undefined : parseCount(usual, value, USUAL);
    else if (name === "sandboxes") changes.sandboxes = value === NONE ? undefined : parseCount(name, value, NONE);
    else if (name === "hours") changes.runSeconds = value === NONE ? undefined : parseHours(value);
    else if (name === "private") changes.private = value === USUAL ? undefined : parsePrivate(name, value);
    else if (name === "sharedMemory") changes.sharedMemory = value === USUAL ? undefined : parseShared(value);
    else if (name === "blocked") changes.blocked = parseBlocked(value);
    else throw new Fault(400, `sandlot limits TEAM takes ${TAKEN}, not "${word}"`);
  }
  return changes;
}

function change(store: Store, slug: string, changes: TeamLimits): Promise<Team> {
  return store.transaction(async (tables) => {
    const { people } = tables;
    const team = await people.teamBySlug(slug);
    if (team === undefined) throw new Fault(404, `there is no team "${slug}"; \`sandlot limits\` shows them`);
    const changed = { ...team, limits: { ...team.limits, ...changes } };
    await people.setLimits(team.id, changed.limits);
    if (Object.keys(changes).length > 0) {
      await record(tables, recording(store, "limits"), { teamId: team.id, object: `team ${slug}` });
    }
    return changed;
  });
}

function teamLine({ slug, limits }: Team): string {
  const { sandboxes, runSeconds, blocked } = limits;
  const hours = runSeconds === undefined ? NONE : runSeconds / HOUR_SECONDS;
  const usual = USUAL_ONES.map((member) => `${member}=${limits[member] ?? USUAL}`);
  const opened = limits.private === undefined ? USUAL : limits.private.join() || NONE;
  const shared = limits.sharedMemory === undefined ? USUAL : limits.sharedMemory ? "on" : "off";
  const last = [`private=${opened}`, `sharedMemory=${shared}`, `blocked=${blocked ? "yes" : "no"}`];
  return [slug, `sandboxes=${sandboxes ?? NONE}`, `hours=${hours}`, ...usual, ...last].join("  ");
}

function parseCount(name: string, text: string, otherwise: string): number {
  const count = /^\d+$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= INT32_MAX) return count;
  throw new Fault(
    400,
    `${name} must be a whole number from 1 on, or ${otherwise}, not "${text}"; blocked=yes allows none`,
  );
}

function parseHours(text: string): number {
  const seconds = /^\d+(\.\d+)?$/.test(text) ? Math.round(Number(text) * HOUR_SECONDS) : 0;
  if (seconds >= 1 && seconds <= INT32_MAX) return seconds;
  throw new Fault(400, `hours must be a number such as 24 or 0.5, at least a second, or ${NONE}, not "${text}"`);
}

function parseShared(text: string): boolean {
  if (text !== "on" && text !== "off") throw new Fault(400, `sharedMemory must be on, off or ${USUAL}, not "${text}"`);
  return text === "on";
}

function parseBlocked(text: string): boolean | undefined {
  if (text !== "yes" && text !== "no") throw new Fault(400, `blocked must be yes or no, not "${text}"`);
  return text === "yes" ? true : undefined;
}
