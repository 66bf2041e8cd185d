/** The place of a request in a distributed trace (W3C Trace Context): the header `traceparent`, read and written. */

export const TRACEPARENT_HEADER = "traceparent";

export interface TraceContext {
  /** 32 hex characters. */
  traceId: string;
  /** The span that is the parent of what follows: 16 hex characters. */
  spanId: string;
  /** Whether the spans of this trace are recorded. */
  isSampled: boolean;
}

/** Later versions may have more fields at the end. */
const HEADER = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/;
const HEADER_MAX_CHARS = 256;
const VERSION_LENGTH = 55;
const TRACE_ID = /^(?!0{32})[0-9a-f]{32}$/;
const SPAN_ID = /^(?!0{16})[0-9a-f]{16}$/;

/** Undefined: absent or malformed. */
export function parseTraceparent(header: string | null): TraceContext | undefined {
  if (header === null || header.length > HEADER_MAX_CHARS) return undefined;
  const [, version = "", traceId = "", spanId = "", flags = ""] = HEADER.exec(header) ?? [];
  if (version === "" || (version === "00" && header.length !== VERSION_LENGTH)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function traceparentOf({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

export function isTraceId(text: unknown): text is string {
  return typeof text === "string" && TRACE_ID.test(text);
}

export function isSpanId(text: unknown): text is string {
  return typeof text === "string" && SPAN_ID.test(text);
}
