/**
 * Requests a build of a built-in template. The request is a row of the store, which the server polls, so other
 * processes can make one too.
 */

import type { Clock } from "../../base/clock.ts";
import type { Build } from "../../store/builds.ts";
import type { Store, Tables } from "../../store/store.ts";
import type { Ids } from "../access/ids.ts";
import type { BuiltinDefinition } from "../templates/builtin-definition.ts";
import { DEFAULT_TAG } from "../templates/template-reference.ts";

interface RequestServices {
  store: Store;
  clock: Clock;
  ids: Ids;
}

/** Marks a row whose template comes with the server. */
const OWN_GENERATION = 0;

/**
 * The build of this version: a ready one, which becomes the default; else one in progress; else a new one, which waits
 * for the server. Undefined: no server has had this template yet.
 */
export async function builtinBuild(
  services: RequestServices,
  definition: BuiltinDefinition,
): Promise<Build | undefined> {
  const { store, clock, ids } = services;
  const version = definition.version();
  return await store.transaction(async ({ builds }) => {
    const known = await builds.tagged(definition.id, version);
    if (known !== undefined) {
      // After a downgrade to a version built before, the default is still another build.
      const current = await builds.tagged(definition.id, DEFAULT_TAG);
      if (current?.id !== known.id) await builds.tag(definition.id, DEFAULT_TAG, known.id, clock.now());
      return known;
    }
    const underWay = await unfinished(builds, definition.id, version);
    if (underWay !== undefined) return underWay;
    const first = definition.firstBuild();
    return await builds.request({
      id: (await builds.byId(first)) === undefined ? first : ids.uuid(),
      templateId: definition.id,
      generation: OWN_GENERATION,
      tags: [DEFAULT_TAG, version],
      cpuCount: definition.cpuCount,
      memoryMB: definition.memoryMB,
      diskSizeMB: definition.diskSizeMB,
      createdAt: clock.now(),
    });
  });
}

async function unfinished(builds: Tables["builds"], id: string, version: string): Promise<Build | undefined> {
  const found = [...(await builds.unfinished("building", id)), ...(await builds.unfinished("waiting", id))];
  return found.find(({ tags }) => tags.includes(version));
}
