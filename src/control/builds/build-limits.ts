/** Limits that the operator sets for builds on this server. The host limits their duration. */
export interface BuildLimits {
  /** Concurrent builds of all teams. */
  atOnce: number;
  /** Builds of one team that were requested and have not begun. */
  waitingPerTeam: number;
  uploadMaxBytes: number;
  stepsMax: number;
  logMaxBytes: number;
}

export const BUILD_LIMITS_DEFAULT: BuildLimits = {
  atOnce: 2,
  waitingPerTeam: 20,
  uploadMaxBytes: 1024 ** 3,
  stepsMax: 100,
  logMaxBytes: 10 * 1024 ** 2,
};
