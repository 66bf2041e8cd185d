/** What the operator allows builds on this server. How long one may take is the host's. */
export interface BuildLimits {
  /** Builds under way, of all teams. */
  atOnce: number;
  /** Builds of one team that were asked for and are not under way. */
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
