/** Maximum run length, for teams whose operator set one. */
import { Fault } from "../../../contract/fault.ts";
import type { Team } from "../../../store/people.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";

/** The length of a new run, or a Fault 400 if the request exceeds the maximum. A default is cut to the maximum. */
export function secondsOf(team: Team, requested: number | null | undefined, fallback: number): number {
  const max = secondsMax(team);
  if (requested === null || requested === undefined) return Math.min(fallback, max);
  if (requested <= max) return requested;
  throw new Fault(
    400,
    `timeout must be at most ${max}, the maximum seconds of a sandbox of this team, got ${requested}; ` +
      "ask for less, or ask the operator of this server to allow more",
  );
}

export function secondsMax({ limits }: Team): number {
  return limits.runSeconds ?? Number.POSITIVE_INFINITY;
}

/**
 * The latest end that this run may have. It lies in the past when the pause was postponed, or when the run began before
 * the operator set the limit.
 */
export function lastEnd(team: Team, run: Sandbox): number {
  return run.startedAt + secondsMax(team) * 1000;
}

/** This many seconds from now, at most the latest end allowed. */
export function endWithin(team: Team, run: Sandbox, seconds: number, now: number): number {
  return Math.min(now + seconds * 1000, lastEnd(team, run));
}

export function ranTooLong(team: Team, id: string): Fault {
  const max = secondsMax(team);
  return new Fault(400, `sandbox "${id}" has run for the ${max} seconds that this team may; start another one`);
}
