/** Spans of traces: timed work with its place in a trace, as exported to a collector. */
import { randomHex } from "./random-hex.ts";

/** Ids of a span, and of the one around it. */
export interface SpanIds {
  traceId: string;
  spanId: string;
  /** Absent: the first span of its trace. */
  parentSpanId?: string | undefined;
}

export interface FinishedSpan extends SpanIds {
  name: string;
  /** `server`: a client's request. */
  kind: "server" | "internal";
  /** Start in milliseconds since 1970. */
  beganAt: number;
  wallMs: number;
  hasFailed: boolean;
  attributes: Readonly<Record<string, string | number>>;
}

export function newSpanId(): string {
  return randomHex(8);
}

export function newTraceId(): string {
  return randomHex(16);
}
