/** How long a run may last, for teams for which the operator has set a maximum. */
import { Fault } from "../../../contract/fault.ts";
import type { Team } from "../../../store/people.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";

/** The seconds of a new run: as asked for, or a Fault 400. A default is never too long, it is the maximum then. */
export function secondsOf(team: Team, asked: number | null | undefined, otherwise: number): number {
  const most = secondsMax(team);
  if (asked === null || asked === undefined) return Math.min(otherwise, most);
  if (asked <= most) return asked;
  throw new Fault(
    400,
    `timeout must be at most ${most}, the maximum seconds of a sandbox of this team, got ${asked}; ` +
      "ask for less, or ask the operator of this server to allow more",
  );
}

export function secondsMax({ limits }: Team): number {
  return limits.runSeconds ?? Number.POSITIVE_INFINITY;
}

/**
 * The latest end that this run may have. It has passed for one whose pause was put off, or that is older than the
 * limit.
 */
export function lastEnd(team: Team, run: Sandbox): number {
  return run.startedAt + secondsMax(team) * 1000;
}

/** An end so many seconds from now, or the latest that may be. */
export function endWithin(team: Team, run: Sandbox, seconds: number, now: number): number {
  return Math.min(now + seconds * 1000, lastEnd(team, run));
}

export function ranTooLong(team: Team, id: string): Fault {
  const most = secondsMax(team);
  return new Fault(400, `sandbox "${id}" has run for the ${most} seconds that this team may; start another one`);
}
