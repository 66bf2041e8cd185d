/** Network settings of a sandbox, as stored. */

/** As sent; fields that were not sent are absent. */
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
