/** Messages between the server and the relay process: one JSON object per line, with replies in any order. */
import type { CountsByName } from "../base/event-counts.ts";
import type { EgressPolicy, RuleAnswer } from "../contract/internal/host.ts";

/** Of the relay, on the gateway's address. */
export interface Ports {
  http: number;
  tls: number;
  proxied: number;
}

/** Three lists of 1 000 ranges or names, with some margin. */
export const RELAY_MESSAGE_MAX_BYTES = 2 * 1024 * 1024;

export type RelayRequest = { id: number } & (
  | { do: "set"; source: string; policy: EgressPolicy | null }
  | { do: "close-ranges"; ranges: readonly string[] }
);

/** It has no reply: an answer that is lost with the relay is for a question that is lost, too. */
export interface RelayAnswer {
  do: "answer";
  question: string;
  answer: RuleAnswer | RuleCertificate;
}

export type RuleCertificate = { certificatePem: string } | { failure: string };

/** The first line that the process gets. Port zero: any free port. */
export interface RelayStart {
  address: string;
  ports: Ports;
  connectionsMax: number;
  /** Null: names with header rules are not relayed. */
  rules: RuleStart | null;
}

export interface RuleStart {
  /** The key of all certificates that the relay gets. */
  leafKeyPem: string;
  /** Authorities that may certify sites, in PEM; null: those that the runtime brings. */
  roots: string | null;
}

/** A request to a name with a header rule, from the sandbox with the address `source`. */
export interface RuleRequest {
  question: string;
  source: string;
  pattern: string;
  host: string;
}

export type RuleQuestion = { asked: RuleRequest } | { certify: Omit<RuleRequest, "pattern"> };

/**
 * `decisions`: outcomes of connections since the last such message. `trouble`: why connections of the sandbox with this
 * address fail, reported at intervals. `asked`, `certify`: the server replies with `answer`.
 */
export type RelayReply =
  | { ready: Ports }
  | { done: number }
  | { trouble: string; source: string }
  | { decisions: CountsByName }
  | RuleQuestion;
