/** `sandlot audit`: the newest entries of the audit log, also while no server runs. */
import { printable } from "../../base/printable.ts";
import { Fault } from "../../contract/fault.ts";
import { teamNamed } from "../../control/access/people.ts";
import { asAuditView } from "../../control/views/audit-list.ts";
import type { AuditEntry } from "../../store/audit-log.ts";
import { isoTime } from "../iso-time.ts";
import type { Config } from "../settings/config.ts";
import { printFromStore } from "../with-store.ts";

const LIMIT_DEFAULT = "100";
const LIMIT_MAX = 10_000;

interface AuditOptions {
  team: string | undefined;
  actor: string | undefined;
  object: string | undefined;
  limit: string | undefined;
  json: boolean;
}

export function audit(config: Config, { team, actor, object, limit = LIMIT_DEFAULT, json }: AuditOptions) {
  const count = /^\d+$/.test(limit) ? Number(limit) : 0;
  if (count < 1 || count > LIMIT_MAX) {
    throw new Fault(400, `--limit must be a whole number from 1 to ${LIMIT_MAX}, not "${limit}"`);
  }
  return printFromStore(
    config,
    async (store) => {
      // A deleted team is known by its id only.
      const teamId = team === undefined || /^[0-9a-f-]{36}$/.test(team) ? team : (await teamNamed(store, team)).id;
      const entries = await store.auditLog.list({ teamId, actorId: actor, object }, undefined, count);
      return entries.map((entry) => (json ? JSON.stringify(asAuditView(entry)) : entryLine(entry)));
    },
    "no entries in the audit log match",
  );
}

function entryLine({ at, status, actor, actorId, address, action, teamId, object }: AuditEntry): string {
  const who = [actor, ...(actorId === null ? [] : [actorId]), ...(address === null ? [] : [`from ${address}`])].join(
    " ",
  );
  const what = [action, ...(teamId === null ? [] : [`team=${teamId}`]), ...(object === null ? [] : [object])];
  return printable([isoTime(at), status, who, ...what].join("  "));
}
