/** Pages of sandboxes. The store filters by its columns; metadata is matched here, batch by batch. */
import { Fault } from "../../contract/fault.ts";
import { PAGE_MAX } from "../../contract/management/limits.ts";
import type { ListSandboxesV2Query } from "../../contract/management/sandbox-requests.ts";
import type { Team } from "../../store/people.ts";
import type { ListedSandboxRow, ListFilter, ListOrder, ListPosition } from "../../store/sandboxes.ts";
import type { Store } from "../../store/store.ts";
import { findForFilter } from "../templates/template-lookup.ts";
import { type MetadataFilter, matchesMetadata, parseMetadataFilter } from "./metadata-filter.ts";
import { invalidPageToken, pageOf, readPageToken } from "./page-token.ts";

/** Rows per batch while a list is filtered by metadata. */
const SCAN_BATCH_ROWS = 500;

interface SandboxPage {
  sandboxes: ListedSandboxRow[];
  /** Undefined on the last page. */
  nextToken: string | undefined;
  /** All running sandboxes that pass the filters, on any page; undefined when running ones were not requested. */
  totalRunning: number | undefined;
}

export async function listPage(
  store: Store,
  team: Team,
  query: ListSandboxesV2Query,
  now: number,
): Promise<SandboxPage> {
  const metadata = parseMetadataFilter(query.metadata);
  const after = query.nextToken ? readPosition(query.nextToken, query.order) : undefined;
  const wanted = query.state ?? ["running", "paused"];
  const filter: ListFilter = {
    teamId: team.id,
    running: wanted.includes("running"),
    paused: wanted.includes("paused"),
    now,
    startedAfter: query.startedAfter === undefined ? 0 : firstMillisecondFrom(query.startedAfter),
    templateId: undefined,
  };
  if (query.template) {
    const template = await findForFilter(store, team, query.template);
    if (template === undefined)
      return { sandboxes: [], nextToken: undefined, totalRunning: filter.running ? 0 : undefined };
    filter.templateId = template.id;
  }
  const found = await take(store, filter, metadata, query.order, after, query.limit + 1);
  const { page, nextToken } = pageOf(found, query.limit, (last) => positionLine(last, query.order));
  return {
    sandboxes: page,
    nextToken,
    totalRunning: filter.running ? await count(store, { ...filter, paused: false }, metadata) : undefined,
  };
}

/** Every running sandbox of the team that matches, newest first. */
export function listRunning(
  store: Store,
  team: Team,
  metadata: string | undefined,
  now: number,
): Promise<ListedSandboxRow[]> {
  const filter = { teamId: team.id, running: true, paused: false, now, startedAfter: 0, templateId: undefined };
  return take(store, filter, parseMetadataFilter(metadata), "desc", undefined, Number.POSITIVE_INFINITY);
}

async function take(
  store: Store,
  filter: ListFilter,
  metadata: MetadataFilter | undefined,
  order: ListOrder,
  after: ListPosition | undefined,
  limit: number,
): Promise<ListedSandboxRow[]> {
  const batchRows = metadata ? SCAN_BATCH_ROWS : Math.min(limit, PAGE_MAX + 1);
  const taken: ListedSandboxRow[] = [];
  for (let position = after; ; ) {
    const batch = await store.sandboxes.list(filter, order, position, batchRows);
    taken.push(...(metadata ? batch.filter((sandbox) => matchesMetadata(sandbox.metadata, metadata)) : batch));
    if (batch.length < batchRows || taken.length >= limit) return taken.slice(0, limit);
    position = batch.at(-1);
  }
}

async function count(store: Store, filter: ListFilter, metadata: MetadataFilter | undefined): Promise<number> {
  if (metadata === undefined) return store.sandboxes.count(filter);
  return (await take(store, filter, metadata, "desc", undefined, Number.POSITIVE_INFINITY)).length;
}

export function positionLine({ startedAt, id }: ListPosition, order: ListOrder): string {
  return `${new Date(startedAt).toISOString()}__${id}${order === "asc" ? "__asc" : ""}`;
}

export function readPosition(token: string, order: ListOrder): ListPosition {
  const [time = "", id = "", mark] = readPageToken(token, /^([-\dT:.]+Z)__([a-z0-9]+)(?:__(asc))?$/);
  const startedAt = Date.parse(time);
  if (Number.isNaN(startedAt)) throw invalidPageToken(token);
  if ((mark === "asc") !== (order === "asc")) {
    throw new Fault(400, `the nextToken was issued for the other order than ${order}; start again without it`);
  }
  return { startedAt, id };
}

/** Start times have milliseconds. A finer time is compared to the microsecond, so it excludes its own millisecond. */
function firstMillisecondFrom(dateTime: string): number {
  const microseconds = /\.\d{3}(\d{1,3})/.exec(dateTime)?.[1] ?? "";
  const milliseconds = Date.parse(dateTime);
  return /[1-9]/.test(microseconds) ? milliseconds + 1 : milliseconds;
}
