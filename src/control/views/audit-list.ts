/** Pages of the audit log. */
import type { z } from "zod";
import type { AuditView, auditQuery } from "../../contract/management/admin.ts";
import type { AuditEntry } from "../../store/audit-log.ts";
import type { Store } from "../../store/store.ts";
import { pageOf, readPageToken } from "./page-token.ts";

/** Newest first. */
export async function listAudit(
  store: Pick<Store, "auditLog">,
  query: z.infer<typeof auditQuery>,
): Promise<{ page: AuditView[]; nextToken: string | undefined }> {
  const { teamID: teamId, actorID: actorId, action, object, limit } = query;
  const found = await store.auditLog.list(
    {
      teamId,
      actorId,
      action,
      object,
      from: query.start === undefined ? undefined : Date.parse(query.start),
      to: query.end === undefined ? undefined : Date.parse(query.end),
    },
    query.nextToken === undefined ? undefined : readToken(query.nextToken),
    limit + 1,
  );
  const { page, nextToken } = pageOf(found, limit, ({ at, id }) => `${at}__${id}`);
  return { page: page.map(asAuditView), nextToken };
}

export function asAuditView(entry: AuditEntry): AuditView {
  const { id, at, actor, actorId, teamId, action, object, address, status, requestId } = entry;
  return {
    id,
    timestamp: new Date(at).toISOString(),
    actor: { kind: actor, ...(actorId !== null && { id: actorId }) },
    ...(teamId !== null && { teamID: teamId }),
    action,
    ...(object !== null && { object }),
    ...(address !== null && { clientAddress: address }),
    status,
    ...(requestId !== null && { requestID: requestId }),
  };
}

function readToken(token: string): { at: number; id: string } {
  const [at, id = ""] = readPageToken(token, /^(\d{1,15})__([0-9a-f-]{36})$/);
  return { at: Number(at), id };
}
