/**
 * Internal timeouts are set for an ordinary machine. The setting `timeFactor` multiplies all of them, for slow machines
 * and for tests. Timeouts that a user sets or that the API promises are never multiplied.
 *
 * The factor comes through the environment, which the server also passes to its helper processes. Timeouts are
 * constants, so the variable must be set before their modules are loaded.
 */
export const TIME_FACTOR = {
  variable: "SANDLOT_TIME_FACTOR",
  min: 1,
  max: 100,
} as const;

/** The timeout on this machine for what takes at most `ms` on an ordinary one. */
export function scaled(ms: number): number {
  return Math.round(ms * factor());
}

/** For the environment of a helper process with timeouts of its own. */
export function timeFactorEnv(): Record<string, string> {
  return factor() === TIME_FACTOR.min ? {} : { [TIME_FACTOR.variable]: String(factor()) };
}

/** Ignores invalid values, which are rejected elsewhere. */
function factor(): number {
  const given = Number(process.env[TIME_FACTOR.variable]);
  return given >= TIME_FACTOR.min && given <= TIME_FACTOR.max ? given : TIME_FACTOR.min;
}
