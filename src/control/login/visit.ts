/** The audit log's fields of a request to a login page. */
import type { Visit } from "../audit/audit.ts";
import type { PageRequest } from "../http/page.ts";

/** Who sent a request to a page, for the audit log. */
export function visitOf({ address, requestId }: PageRequest, action: string, status = 200): Visit {
  return { address: address || null, requestId, action, status };
}
