/**
 * What the host asks of an OCI runtime. Every wall (crun now, others beside it) is held to the same contract tests in
 * tests/functional/host/runtime-contract.test.ts.
 */
export interface Runtime {
  /**
   * Makes all namespaces and walls of the sandbox described by `bundle`/config.json and stops before its first process runs.
   * Answers the host pid of that process.
   */
  create(id: string, bundle: string): Promise<number>;

  /** Lets the first process run. */
  start(id: string): Promise<void>;

  /** Ends every process of the sandbox and removes what the runtime kept of it. Idempotent; an unknown id is success. */
  remove(id: string): Promise<void>;

  /** Ids of all sandboxes that this runtime still has a trace of, alive or not. */
  list(): Promise<string[]>;
}
