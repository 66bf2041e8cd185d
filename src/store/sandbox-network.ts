/** What was said about the network of a sandbox. */

/** As it was sent. What was not, is absent. */
export interface SandboxNetwork extends EgressSettings {
  allowPublicTraffic?: boolean;
  maskRequestHost?: string;
  httpsPorts?: number[];
}

export interface EgressSettings {
  allowOut?: string[];
  denyOut?: string[];
  egressProxy?: { address: string; username?: string; password?: string };
}
