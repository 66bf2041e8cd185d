/**
 * What must exist before the first request: somebody to create things, a team, its key, and a template to start from.
 */
import type { SandboxKind } from "../host/host.ts";
import type { Store, Tables } from "../store/store.ts";
import { GLOBAL_NAMESPACE, type TemplateResources } from "../store/templates.ts";
import type { Clock } from "../work/clock.ts";
import type { Ids } from "./access/ids.ts";
import { createApiKey } from "./access/keys.ts";
import { kindOf } from "./templates/template-look-up.ts";

export const OPERATOR_EMAIL = "operator@localhost";
export const DEFAULT_TEAM_SLUG = "default";

/** A template that comes with the server, under a name that every team can use. */
export interface BuiltinTemplate extends TemplateResources {
  /** The same on every server. */
  id: string;
  buildId: string;
  alias: string;
}

export interface FirstRun {
  userId: string;
  teamId: string;
  /** Only when the team had no key: shown this once, for the caller to keep. */
  firstApiKey: string | undefined;
}

/** Idempotent: run it at every start. Resources of built-in templates follow what the caller gives. */
export function ensureFirstRun(
  services: { store: Store; ids: Ids; clock: Clock },
  builtins: readonly BuiltinTemplate[],
): Promise<FirstRun> {
  const { ids, clock } = services;
  return services.store.transaction(async (store) => {
    const seeding = { store, ids, clock };
    const userId = await ensureOperator(seeding);
    const teamId = await ensureTeam(seeding, userId);
    for (const builtin of builtins) await ensureTemplate(seeding, builtin, userId);
    const hasKey = (await store.keys.countApiKeys(teamId)) > 0;
    const first = hasKey ? undefined : await createApiKey(seeding, { teamId, name: "first key", createdBy: userId });
    return { userId, teamId, firstApiKey: first?.secret };
  });
}

/** The kinds of sandbox that are worth keeping ready. */
export async function listBuiltinKinds(store: Tables): Promise<SandboxKind[]> {
  return (await store.templates.builtIn()).map(kindOf);
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
  const known = await store.people.teamBySlug(DEFAULT_TEAM_SLUG);
  if (known !== undefined) return known.id;
  const id = ids.uuid();
  await store.people.addTeam({
    id,
    name: DEFAULT_TEAM_SLUG,
    slug: DEFAULT_TEAM_SLUG,
    limits: {},
    createdAt: clock.now(),
  });
  await store.people.join(userId, id, true);
  return id;
}

async function ensureTemplate({ store, clock }: Seeding, builtin: BuiltinTemplate, userId: string): Promise<void> {
  const { id, buildId, alias, ...resources } = builtin;
  const now = clock.now();
  const known = await store.templates.byAlias(GLOBAL_NAMESPACE, alias);
  if (known !== undefined) {
    const { templateId: _, ...current } = kindOf(known);
    if (!Bun.deepEquals(current, resources)) await store.templates.setResources(known.id, resources, now);
    return;
  }
  await store.templates.add({
    id,
    teamId: null,
    public: true,
    ...resources,
    createdAt: now,
    updatedAt: now,
    createdBy: userId,
    spawnCount: 0,
    lastSpawnedAt: null,
    buildCount: 0,
  });
  await store.templates.addAlias(GLOBAL_NAMESPACE, alias, id);
  await store.templates.addBuild({ id: buildId, templateId: id, status: "ready", createdAt: now });
}
