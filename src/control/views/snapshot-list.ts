/** Pages of snapshots, newest first. */
import { TEMPLATE_ID_PATTERN } from "../../contract/ids.ts";
import type { ListSnapshotsQuery, Snapshot } from "../../contract/management/snapshot.ts";
import type { Team } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import type { SnapshotFilter, TaggedSnapshot } from "../../store/templates.ts";
import { asSnapshot } from "../templates/snapshots.ts";
import { parseTemplateReference } from "../templates/template-reference.ts";
import { pageOf, readPageToken } from "./page-token.ts";

const POSITION = new RegExp(`^(\\d{1,15}) (${TEMPLATE_ID_PATTERN}) ([a-z0-9_.-]+)$`);

interface SnapshotPage {
  snapshots: Snapshot[];
  /** Undefined on the last page. */
  nextToken: string | undefined;
}

export async function listSnapshots(store: Store, team: Team, query: ListSnapshotsQuery): Promise<SnapshotPage> {
  const after = query.nextToken ? readToken(query.nextToken) : undefined;
  const filter: SnapshotFilter = { teamId: team.id, sandboxId: query.sandboxID, templateId: undefined, tag: undefined };
  if (query.name) {
    const { namespace, name, tag } = parseTemplateReference(query.name);
    const template =
      (await store.templates.byAlias(namespace ?? team.slug, name)) ??
      (namespace === undefined ? await store.templates.byId(name) : undefined);
    if (template === undefined) return { snapshots: [], nextToken: undefined };
    filter.templateId = template.id;
    filter.tag = tag;
  }
  const found = await store.templates.snapshots(filter, after, query.limit + 1);
  const { page, nextToken } = pageOf(found, query.limit, (last) => `${last.createdAt} ${last.templateId} ${last.tag}`);
  const snapshots: Snapshot[] = [];
  for (const { templateId, tag } of page) snapshots.push(await asSnapshot(store, team, templateId, tag));
  return { snapshots, nextToken };
}

function readToken(token: string): TaggedSnapshot {
  const [createdAt, templateId = "", tag = ""] = readPageToken(token, POSITION);
  return { createdAt: Number(createdAt), templateId, tag };
}
