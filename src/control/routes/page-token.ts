/** The opaque `nextToken` of a list: where the page before ended, and in which order it was read. */
import { Fault } from "../../contract/fault.ts";
import type { ListOrder, ListPosition } from "../../store/sandboxes.ts";

const SEPARATOR = "__";

export function writePageToken(position: ListPosition, order: ListOrder): string {
  const parts = [new Date(position.startedAt).toISOString(), position.id];
  if (order === "asc") parts.push("asc");
  return Buffer.from(parts.join(SEPARATOR)).toString("base64url");
}

export function readPageToken(token: string, order: ListOrder): ListPosition {
  const [time, id, mark, ...more] = Buffer.from(token, "base64url").toString("utf8").split(SEPARATOR);
  const startedAt = time === undefined ? Number.NaN : Date.parse(time);
  const wellFormed =
    id !== undefined && /^[a-z0-9]+$/.test(id) && (mark === undefined || mark === "asc") && more.length === 0;
  if (Number.isNaN(startedAt) || !wellFormed) {
    throw new Fault(400, "invalid nextToken; send the X-Next-Token header of the page before, unchanged");
  }
  if ((mark === "asc") !== (order === "asc")) {
    throw new Fault(400, `the nextToken was issued for the other order than ${order}; start again without it`);
  }
  return { startedAt, id };
}
