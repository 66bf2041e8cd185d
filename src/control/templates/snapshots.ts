/**
 * Snapshots: templates that were made of a running sandbox. Each is a build with a checkpoint, under a tag of a
 * template that has a name of the team's, or only an id.
 */
import { Fault } from "../../contract/fault.ts";
import type { Snapshot } from "../../contract/management/snapshot.ts";
import type { Team } from "../../store/people.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { Store, Tables } from "../../store/store.ts";
import { GLOBAL_NAMESPACE, type Template } from "../../store/templates.ts";
import type { Clock } from "../../work/clock.ts";
import type { Callers } from "../access/authentication.ts";
import type { Ids } from "../access/ids.ts";
import { kindOfSandbox } from "./template-look-up.ts";
import { DEFAULT_TAG, parseTemplateReference } from "./template-reference.ts";

interface SnapshotServices {
  store: Store;
  clock: Clock;
  ids: Ids;
  lifecycle: Checkpointer;
}

/** As much of the life cycle as snapshots need. */
interface Checkpointer {
  /**
   * `use` gets the name of a checkpoint of the running sandbox, to record it; when it throws, the checkpoint is
   * removed.
   */
  snapshot<T>(
    team: Team,
    id: string,
    memory: boolean,
    use: (sandbox: Sandbox, checkpoint: string) => Promise<T>,
  ): Promise<T>;
  noteSnapshot(sandbox: Sandbox, note: string): void;
  /** Removes, in its own time, checkpoints that no row names any more. */
  discard(checkpoints: readonly string[]): void;
}

interface SnapshotName {
  alias: string;
  tag: string;
}

const BUILD_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Makes one. The sandbox goes on. */
export async function makeSnapshot(
  { store, lifecycle, clock, ids }: SnapshotServices,
  { team, userId }: Callers["key"],
  sandboxId: string,
  request: { name: string | undefined; memory: boolean },
): Promise<Snapshot> {
  const name = request.name === undefined ? undefined : parseOwnName(team, request.name);
  const named = name && (await store.templates.everById(name.alias));
  // The id of a template that the team cannot see is a name like any other: a refusal would tell that it exists.
  if (name !== undefined && named !== undefined && (named.public || named.teamId === team.id)) {
    throw new Fault(409, `"${name.alias}" is the id of a template; choose another name`);
  }
  return lifecycle.snapshot(team, sandboxId, request.memory, async (sandbox, checkpoint) => {
    const made = await record(store, team, sandbox, {
      name,
      checkpoint,
      templateId: ids.templateId(),
      buildId: ids.uuid(),
      createdBy: userId,
      now: clock.now(),
    });
    lifecycle.noteSnapshot(sandbox, `snapshot ${made.snapshotID}`);
    return made;
  });
}

/** How clients see the build under this tag. */
export async function asSnapshot(store: Tables, team: Team, templateId: string, tag: string): Promise<Snapshot> {
  const names = (await store.templates.aliasesOf(templateId)).map((alias) => `${team.slug}/${alias}`);
  return { snapshotID: `${names[0] ?? templateId}:${tag}`, names };
}

/** Frees the template's names and removes its checkpoints. Refused while sandboxes of it exist. */
export async function deleteTemplate(
  { store, lifecycle, clock }: Omit<SnapshotServices, "ids">,
  team: Team,
  written: string,
): Promise<void> {
  const checkpoints = await store.transaction(async (tables) => {
    const template = await findOwn(tables, team, written);
    // First, so that a sandbox that is being made of it is either counted or finds it gone.
    await tables.templates.delete(template.id, clock.now());
    const sandboxes = await tables.sandboxes.countOf(template.id);
    if (sandboxes > 0) {
      const these = sandboxes === 1 ? "a sandbox of it is" : `${sandboxes} sandboxes of it are`;
      throw new Fault(400, `template "${written}" cannot be deleted while ${these} running or paused; kill them first`);
    }
    return await tables.builds.checkpointsOf(template.id);
  });
  lifecycle.discard(checkpoints);
}

/**
 * The team's template by alias or id; a tag is taken and ignored, as clients expect. By id another team's is as one
 * that never was, and so is a private one by alias.
 */
async function findOwn(tables: Tables, team: Team, written: string): Promise<Template> {
  const { namespace, name } = parseTemplateReference(written);
  if (namespace !== undefined && namespace !== team.slug) throw foreignNamespace(team, namespace);
  const isBare = namespace === undefined;
  const byAlias =
    (await tables.templates.byAlias(team.slug, name)) ??
    (isBare ? await tables.templates.byAlias(GLOBAL_NAMESPACE, name) : undefined);
  const found = byAlias ?? (isBare ? await tables.templates.byId(name) : undefined);
  if (found?.teamId === team.id) return found;
  if (found?.teamId === null) throw new Fault(403, `template "${written}" is built in and cannot be deleted`);
  if (byAlias?.public) throw new Fault(403, `template "${written}" belongs to another team`);
  throw new Fault(404, `template "${written}" does not exist`);
}

function parseOwnName(team: Team, written: string): SnapshotName {
  const { namespace, name, tag = DEFAULT_TAG } = parseTemplateReference(written);
  if (namespace !== undefined && namespace !== team.slug) throw foreignNamespace(team, namespace);
  if (BUILD_ID.test(tag)) throw new Fault(400, `the tag "${tag}" has the form of a build id; choose another one`);
  return { alias: name, tag };
}

function foreignNamespace(team: Team, namespace: string): Fault {
  return new Fault(400, `the namespace "${namespace}" is not this team's; write "${team.slug}/…" or leave it out`);
}

interface NewSnapshot {
  name: SnapshotName | undefined;
  checkpoint: string;
  /** For the template, if the name is new. */
  templateId: string;
  buildId: string;
  createdBy: string | null;
  now: number;
}

function record(store: Store, team: Team, sandbox: Sandbox, made: NewSnapshot): Promise<Snapshot> {
  const { name, checkpoint, buildId, now } = made;
  return store.transaction(async (tables) => {
    const templateId = await templateFor(tables, team, made);
    const tag = name?.tag ?? DEFAULT_TAG;
    const { image, cpuCount, memoryMB, diskSizeMB, defaultUser, defaultWorkdir } = await kindOfSandbox(tables, sandbox);
    const added = await tables.builds.addFinished({
      id: buildId,
      templateId,
      generation: 0,
      tags: [tag],
      cpuCount,
      memoryMB,
      diskSizeMB,
      image,
      defaultUser,
      defaultWorkdir,
      envVars: sandbox.envVars,
      guestVersion: null,
      checkpoint,
      sourceSandbox: sandbox.id,
      createdAt: now,
    });
    if (added === undefined) throw new Fault(404, `template "${templateId}" was deleted while the snapshot was made`);
    const { snapshotID } = await asSnapshot(tables, team, templateId, tag);
    const names = name === undefined ? [] : [`${team.slug}/${name.alias}`];
    return { snapshotID: name === undefined ? snapshotID : `${names[0]}:${tag}`, names };
  });
}

/** The one that has the name already, or a new one. */
async function templateFor(tables: Tables, team: Team, made: NewSnapshot): Promise<string> {
  const { name, templateId, now } = made;
  const known = name && (await tables.templates.byAlias(team.slug, name.alias));
  if (known !== undefined) return known.id;
  await tables.templates.add({
    id: templateId,
    teamId: team.id,
    public: false,
    keptReady: 0,
    createdAt: now,
    updatedAt: now,
    createdBy: made.createdBy,
    spawnCount: 0,
    lastSpawnedAt: null,
    buildCount: 0,
  });
  if (name !== undefined && !(await tables.templates.addAlias(team.slug, name.alias, templateId))) {
    throw new Fault(409, `"${name.alias}" was given to another template at the same moment; try again`);
  }
  return templateId;
}
