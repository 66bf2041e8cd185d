/**
 * Selects the sandboxes that share memory: those of teams that the operator names, which form one group. The host lets
 * the kernel merge equal pages within this group. Sandboxes of the group can find out, by timing, which pages others in
 * it hold.
 */
import type { Log } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";
import type { SandboxKind } from "../../contract/internal/host.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { Team } from "../../store/people.ts";

/** Names of teams, or all of them. */
export type SharedMemory = "off" | "all" | readonly string[];

/** Throws Fault 400 when the setting names a team that does not exist. */
export function requireTeams(setting: SharedMemory, teams: readonly Team[]): void {
  const named = typeof setting === "string" ? [] : setting;
  const unknown = named.find((name) => !teams.some(({ slug }) => slug === name));
  if (unknown === undefined) return;
  throw new Fault(
    400,
    `sharedMemory names ${quoted(unknown)}, which is not a team; \`sandlot limits\` shows all teams`,
  );
}

/** For a server whose isolation runtime cannot share memory: reports limits of teams that have no effect. */
export function warnOfLimits(teams: readonly Team[], log: Log): void {
  const event = "sharedMemory=on has no effect: the isolation runtime of sandboxes is not crun";
  for (const { slug, limits } of teams) if (limits.sharedMemory) log.write({ level: "warn", event, team: slug });
}

/** The kind for a sandbox of this team. */
export function kindForTeam(kind: SandboxKind, team: Team, setting: SharedMemory): SandboxKind {
  return sharesMemory(team, setting) ? { ...kind, sharesMemory: true } : kind;
}

export function sharesMemory({ slug, limits }: Team, setting: SharedMemory): boolean {
  if (limits.sharedMemory !== undefined) return limits.sharedMemory;
  return setting === "all" || (setting !== "off" && setting.includes(slug));
}

/** The kinds to keep ready for a template: each half of the teams has its own. */
export function kindsKeptReady(kind: SandboxKind, setting: SharedMemory): SandboxKind[] {
  const shared: SandboxKind = { ...kind, sharesMemory: true };
  if (setting === "off") return [kind];
  return setting === "all" ? [shared] : [kind, shared];
}
