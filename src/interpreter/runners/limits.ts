/** Bounds that several files of this module share. Units come last in a name. */

/** For what the server itself has a runner do, such as setting a variable. */
export const RUNNER_CHORE_MS = 20_000;
