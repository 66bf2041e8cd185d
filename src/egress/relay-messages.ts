/** What the server and the process of the relay say to each other: one JSON object a line, answered in any order. */
import type { EgressPolicy } from "../contract/internal/host.ts";
import type { Ports } from "./program/connection-relay.ts";

export type RelayRequest = { id: number } & (
  | { do: "set"; source: string; policy: EgressPolicy | null }
  | { do: "close-ranges"; ranges: readonly string[] }
);

/** What the process is started with, as its first line. Zero: any port that is free. */
export interface RelayStart {
  address: string;
  ports: Ports;
  connectionsMax: number;
}

/** `trouble`: why connections of the sandbox with this address fail, at most once in a while. */
export type RelayAnswer = { ready: Ports } | { done: number } | { trouble: string; source: string };
