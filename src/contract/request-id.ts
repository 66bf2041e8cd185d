/**
 * The id of a client's request, from the client to the guest: in the header below, in responses, and in log lines. The
 * edge decides it. Every reader checks its form, because a client may have written the header.
 */
import type { TraceContext } from "./trace-context.ts";

/** The request that some work is done for. */
export interface RequestOrigin {
  id: string;
  /** While traces are exported: the edge's span of the request. */
  trace?: TraceContext | undefined;
}

export const REQUEST_ID_HEADER = "x-request-id";

/** Short, without characters that mean anything to a log, a terminal or a header, and no key or token. */
const FORM = /^(?!.*(?:e2b_|sandlot_admin_|eyJ))[A-Za-z0-9._-]{1,64}$/;

export function isRequestId(text: string): boolean {
  return FORM.test(text);
}

/** The id in these headers, if it has the right form. */
export function requestIdIn(headers: { get(name: string): string | null }): string | undefined {
  const given = headers.get(REQUEST_ID_HEADER);
  return given !== null && isRequestId(given) ? given : undefined;
}
