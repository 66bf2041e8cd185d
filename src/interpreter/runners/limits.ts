/** Limits that several files of this module share. Units come last in a name. */

/** Timeout of the server's own tasks in a runner, such as setting a variable. */
export const RUNNER_CHORE_MS = 20_000;
