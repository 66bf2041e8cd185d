/**
 * Which sandboxes share memory: those of teams that the operator names, which form one group. The host lets the kernel
 * merge equal pages within this group. Sandboxes of the group can find out, by timing, which pages others in it hold.
 */
import type { SandboxKind } from "../../contract/internal/host.ts";
import type { Team } from "../../store/people.ts";

/** Names of teams, or all of them. */
export type SharedMemory = "off" | "all" | readonly string[];

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
