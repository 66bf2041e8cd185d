/** What an edge process reports to the server about the requests since its last report. */
export interface RequestReport {
  requests: Readonly<Record<string, number>>;
  refusals: Readonly<Record<string, number>>;
  /** Seconds from a request that starts a command to its response. */
  starts: readonly number[];
}
