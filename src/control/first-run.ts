/**
 * Creates the rows that must exist before the first request: the operator's user, a team, its key and the built-in
 * templates.
 */
import type { Clock } from "../base/clock.ts";
import type { SandboxKind } from "../contract/internal/host.ts";
import type { Store, Tables } from "../store/store.ts";
import { GLOBAL_NAMESPACE } from "../store/templates.ts";
import { createApiKeyIn } from "./access/keys.ts";
import { DEFAULT_TEAM_SLUG, OPERATOR_EMAIL } from "./access/people.ts";
import type { Ids } from "./ids.ts";
import type { BuiltinDefinition } from "./templates/builtin-definition.ts";
import { sandboxKindOf } from "./templates/template-lookup.ts";
import { DEFAULT_TAG } from "./templates/template-reference.ts";

/** Ready pool of a template that is built on demand. Its started processes use memory as long as they are kept. */
export const DEFINED_READY = 1;
const LOST = "its root filesystem was removed from the cache folder";

/** A template that comes with the server, under a name that every team can use. */
export interface BuiltinTemplate extends Omit<SandboxKind, "templateId"> {
  /** The same on every server. */
  id: string;
  /** Id of its first build. */
  buildId: string;
  alias: string;
}

export interface FirstRun {
  userId: string;
  teamId: string;
  /** Only when the team had no key. The secret is shown this once. */
  firstApiKey: string | undefined;
}

/**
 * Idempotent: run it at every start. A built-in template gets a new build when its resources change. A definition gets
 * a template without a build.
 */
export function ensureFirstRun(
  services: { store: Store; ids: Ids; clock: Clock },
  builtins: readonly BuiltinTemplate[],
  definitions: readonly Pick<BuiltinDefinition, "id" | "name" | "hasImage">[] = [],
): Promise<FirstRun> {
  const { ids, clock } = services;
  return services.store.transaction(async (store) => {
    const seeding = { store, ids, clock };
    const userId = await ensureOperator(seeding);
    const teamId = await ensureTeam(seeding, userId);
    for (const builtin of builtins) await ensureTemplate(seeding, builtin, userId);
    for (const definition of definitions) await ensureDefined(seeding, definition, userId);
    const hasKey = (await store.keys.countApiKeys(teamId)) > 0;
    const first = hasKey ? undefined : await createApiKeyIn(seeding, { teamId, name: "first key", createdBy: userId });
    return { userId, teamId, firstApiKey: first?.secret };
  });
}

interface Seeding {
  store: Tables;
  ids: Ids;
  clock: Clock;
}

async function ensureOperator({ store, ids, clock }: Seeding): Promise<string> {
  const known = await store.people.userByEmail(OPERATOR_EMAIL);
  if (known !== undefined) return known.id;
  const id = ids.uuid();
  await store.people.addUser({ id, email: OPERATOR_EMAIL, createdAt: clock.now() });
  return id;
}

async function ensureTeam({ store, ids, clock }: Seeding, userId: string): Promise<string> {
  const slug = DEFAULT_TEAM_SLUG;
  const known = await store.people.teamBySlug(slug);
  if (known !== undefined) return known.id;
  const id = ids.uuid();
  await store.people.addTeam({ id, name: slug, slug, limits: {}, createdAt: clock.now() });
  await store.people.join(userId, id, true);
  return id;
}

async function ensureTemplate({ store, ids, clock }: Seeding, builtin: BuiltinTemplate, userId: string): Promise<void> {
  const { id, buildId, alias, ...resources } = builtin;
  const now = clock.now();
  const known = await store.templates.byAlias(GLOBAL_NAMESPACE, alias);
  const templateId = known?.id ?? id;
  const current = known && (await store.builds.tagged(templateId, DEFAULT_TAG));
  if (current && isSame(sandboxKindOf(current), { templateId, ...resources })) return;
  if (known === undefined) {
    await store.templates.add({ id, teamId: null, public: true, createdAt: now, createdBy: userId });
    await store.templates.addAlias(GLOBAL_NAMESPACE, alias, id);
  }
  // Paused sandboxes of the previous build resume with that build.
  const fresh = { id: known === undefined ? buildId : ids.uuid(), templateId, createdAt: now };
  await store.builds.addFinished({ ...resources, ...fresh, generation: 0, tags: [DEFAULT_TAG] });
}

/**
 * If a team has published a template under this name, it keeps the name, and this one is found by its id. Builds whose
 * root filesystem was removed from the cache are marked as lost, and built again on demand.
 */
async function ensureDefined(
  { store, clock }: Seeding,
  { id, name, hasImage }: Pick<BuiltinDefinition, "id" | "name" | "hasImage">,
  userId: string,
): Promise<void> {
  const now = clock.now();
  if ((await store.templates.everById(id)) === undefined) {
    const shared = { teamId: null, public: true, keptReady: DEFINED_READY };
    await store.templates.add({ ...shared, id, createdAt: now, createdBy: userId });
    await store.templates.addAlias(GLOBAL_NAMESPACE, name, id);
  }
  for (const { id: build, image } of await store.builds.readyOf(id)) {
    if (image !== null && !hasImage(image)) await store.builds.markLost(build, { message: LOST, step: null }, now);
  }
}

/** Compares all but the isolation runtime, which the operator sets separately. */
function isSame({ wall: _, ...kind }: SandboxKind, wanted: SandboxKind): boolean {
  return Bun.deepEquals(kind, wanted);
}
