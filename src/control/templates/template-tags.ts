/** Assigns tags to builds and removes them, on request. */
import type { Clock } from "../../base/clock.ts";
import { Fault } from "../../contract/fault.ts";
import type { Team } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import type { ReadyPoolTargets } from "./ready-pool-targets.ts";
import { findOwn, refuseBlocked } from "./team-template.ts";
import { findBuild } from "./template-lookup.ts";
import { DEFAULT_TAG, parseTag } from "./template-reference.ts";

interface TagServices {
  store: Store;
  clock: Clock;
  readyPoolTargets: ReadyPoolTargets;
}

/** These tags then mean the build that `target` names. */
export async function assignTags(
  { store, clock, readyPoolTargets }: TagServices,
  team: Team,
  target: string,
  written: readonly string[],
): Promise<{ tags: string[]; buildID: string }> {
  refuseBlocked(team);
  const tags = [...new Set(written.map(parseTag))];
  const buildID = await store.transaction(async (tables) => {
    const { template, reference } = await findOwn(tables, team, target);
    const from = reference.tag ?? DEFAULT_TAG;
    const build = await findBuild(tables, template, from);
    if (build === undefined) throw new Fault(404, `template "${target}" has no finished build with the tag "${from}"`);
    for (const tag of tags) await tables.builds.tag(template.id, tag, build.id, clock.now());
    return build.id;
  });
  readyPoolTargets.changed();
  return { tags, buildID };
}

/** Tags that the template does not have are ignored. */
export async function removeTags(
  { store, clock }: Omit<TagServices, "readyPoolTargets">,
  team: Team,
  name: string,
  written: readonly string[],
): Promise<void> {
  const tags = written.map(parseTag);
  if (tags.includes(DEFAULT_TAG)) {
    throw new Fault(
      400,
      `the tag "${DEFAULT_TAG}" cannot be removed; give it to another build, or delete the template`,
    );
  }
  await store.transaction(async (tables) => {
    const { template, reference } = await findOwn(tables, team, name);
    if (reference.tag !== undefined) {
      throw new Fault(400, `"${name}" has a tag; send the name without ":${reference.tag}", and the tags in "tags"`);
    }
    for (const tag of tags) await tables.builds.untag(template.id, tag, clock.now());
  });
}
