/** The entries of requests in the audit log. */
import { UUID } from "../../contract/management/identifiers.ts";
import type { Authentication, Callers, Client } from "../access/authentication.ts";
import type { AuditLog, Origin } from "../audit/audit.ts";
import type { RouteFacts, RouteResult } from "./route.ts";

export type RequestAudit = Pick<AuditLog, "note" | "noteRecorded">;

interface Audited {
  caller: Callers[Authentication];
  /** Undefined: a request that is not audited. */
  origin: Origin | undefined;
  params: Readonly<Record<string, string>>;
}

/** Undefined for requests without a known caller, and for the content of volumes. */
export function originOf(
  route: RouteFacts,
  caller: Callers[Authentication],
  { id, client }: { id: string; client: Client | undefined },
): Origin | undefined {
  if (caller === undefined || !("actor" in caller)) return undefined;
  return {
    actor: caller.actor,
    // Root comes through a socket.
    address: client?.address || null,
    requestId: id,
    action: `${route.method} ${route.path}`,
    status: route.success[0]?.status ?? 200,
  };
}

/** Fields of responses that name what the request created; the first one counts. */
const CREATED_FIELDS = ["sandboxID", "snapshotID", "templateID", "buildID", "volumeID", "secretID", "id"] as const;

/** Writes the entry of a request that may have changed something. */
export function audit(
  route: RouteFacts,
  { caller, origin, params }: Audited,
  answer: RouteResult,
  log: RequestAudit,
): void {
  if (origin === undefined) return;
  const { teamID, ...others } = params;
  // A path may hold any text.
  const named = teamID !== undefined && UUID.test(teamID) ? teamID.toLowerCase() : null;
  const teamId = caller && "team" in caller ? caller.team.id : named;
  const isRecorded = origin.isRecorded === true && answer.status < 400;
  if (isRecorded) log.noteRecorded(origin, teamId);
  if (isRecorded || route.method === "GET") return;
  const body: Record<string, unknown> =
    answer.status < 400 && typeof answer.body === "object" && answer.body !== null ? { ...answer.body } : {};
  const [created] = CREATED_FIELDS.flatMap((field) => (typeof body[field] === "string" ? [body[field]] : []));
  const object = [...new Set([...Object.values(others), ...(created === undefined ? [] : [created])])].join(" ");
  log.note(origin, { teamId, object: object === "" ? (teamID ?? null) : object, status: answer.status });
}
