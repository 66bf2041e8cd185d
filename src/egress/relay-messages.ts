/** Messages between the server and the relay process: one JSON object per line, with replies in any order. */
import type { CountsByName } from "../base/event-counts.ts";
import type { EgressPolicy } from "../contract/internal/host.ts";
import type { Ports } from "./program/connection-relay.ts";

/** Two lists of 1 000 ranges and one of 1 000 names, with some margin. */
export const RELAY_MESSAGE_MAX_BYTES = 2 * 1024 * 1024;

export type RelayRequest = { id: number } & (
  | { do: "set"; source: string; policy: EgressPolicy | null }
  | { do: "close-ranges"; ranges: readonly string[] }
);

/** The first line that the process gets. Port zero: any free port. */
export interface RelayStart {
  address: string;
  ports: Ports;
  connectionsMax: number;
}

/**
 * `decisions`: outcomes of connections since the last such message. `trouble`: why connections of the sandbox with this
 * address fail, reported at intervals.
 */
export type RelayReply =
  | { ready: Ports }
  | { done: number }
  | { trouble: string; source: string }
  | { decisions: CountsByName };
