/**
 * Snapshots: templates made from a running sandbox. Each is a build with a checkpoint, under a tag of a template that
 * has a name of the team's, or only an id.
 */
import { Fault } from "../../contract/fault.ts";
import type { Snapshot } from "../../contract/management/snapshot.ts";
import type { RuntimeName } from "../../contract/runtime-name.ts";
import type { Team } from "../../store/people.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { Store, Tables } from "../../store/store.ts";
import type { Callers } from "../access/authentication.ts";
import { lockTeam } from "../access/people.ts";
import type { Parts } from "../parts.ts";
import { requireVolumes } from "../volumes/volume-mounts.ts";
import { type OwnName, parseOwnName } from "./team-template.ts";
import { kindOfSandbox } from "./template-lookup.ts";
import { DEFAULT_TAG } from "./template-reference.ts";

/** Each holds a disk, and usually memory. */
export const SNAPSHOTS_PER_TEAM_MAX = 1_000;

interface SnapshotServices extends Pick<Parts, "store" | "clock" | "ids"> {
  lifecycle: Checkpointer;
}

/** The part of the lifecycle that snapshots need. */
interface Checkpointer {
  /**
   * `use` gets the name of a checkpoint of the running sandbox and records it. When it throws, the checkpoint is
   * removed.
   */
  snapshot<T>(
    team: Team,
    id: string,
    memory: boolean,
    use: (sandbox: Sandbox, checkpoint: string) => Promise<T>,
  ): Promise<T>;
  noteSnapshot(sandbox: Sandbox, note: string): void;
}

/** Makes a snapshot. The sandbox keeps running. */
export async function makeSnapshot(
  { store, lifecycle, clock, ids }: SnapshotServices,
  { team, userId }: Callers["key"],
  sandboxId: string,
  request: { name: string | undefined; memory: boolean },
): Promise<Snapshot> {
  const name = request.name === undefined ? undefined : parseOwnName(team, request.name);
  // Checked before the sandbox freezes. A named snapshot may replace another, so it is checked when it is recorded.
  if (name === undefined) await requireRoom(store, team, SNAPSHOTS_PER_TEAM_MAX - 1);
  return lifecycle.snapshot(team, sandboxId, request.memory, async (sandbox, checkpoint) => {
    const made = await record(store, team, sandbox, {
      name,
      checkpoint,
      memory: request.memory,
      templateId: ids.templateId(),
      buildId: ids.uuid(),
      createdBy: userId,
      now: clock.now(),
    });
    lifecycle.noteSnapshot(sandbox, `snapshot ${made.snapshotID}`);
    return made;
  });
}

/** The API form of the build under this tag. */
export async function asSnapshot(store: Tables, team: Team, templateId: string, tag: string): Promise<Snapshot> {
  const names = (await store.templates.aliasesOf(templateId)).map((alias) => `${team.slug}/${alias}`);
  return { snapshotID: `${names[0] ?? templateId}:${tag}`, names };
}

interface NewSnapshot {
  name: OwnName | undefined;
  checkpoint: string;
  /** Whether the checkpoint has memory. */
  memory: boolean;
  /** Id of the new template, if the name is new. */
  templateId: string;
  buildId: string;
  createdBy: string | null;
  now: number;
}

function record(store: Store, team: Team, sandbox: Sandbox, made: NewSnapshot): Promise<Snapshot> {
  const { name, checkpoint, buildId, now } = made;
  return store.transaction(async (tables) => {
    // Memory can only be restored by the same isolation runtime.
    const { wall = null, ...kind } = await kindOfSandbox(tables, sandbox);
    await lockTeam(tables, team.id);
    const templateId = await templateFor(tables, team, made, wall);
    const tag = name?.tag ?? DEFAULT_TAG;
    await requireVolumes(tables, team.id, sandbox.volumeMounts);
    if (sandbox.volumeMounts.length > 0 && (await tables.templates.byId(templateId))?.public) {
      throw new Fault(409, `a snapshot with volumes cannot be part of template "${templateId}", which is public`);
    }
    const added = await tables.builds.addFinished({
      ...kind,
      id: buildId,
      templateId,
      generation: 0,
      tags: [tag],
      envVars: sandbox.envVars,
      guestVersion: made.memory ? sandbox.guestVersion : null,
      checkpoint,
      sourceSandbox: sandbox.id,
      volumeMounts: sandbox.volumeMounts,
      wall,
      createdAt: now,
    });
    if (added === undefined) throw new Fault(404, `template "${templateId}" was deleted while the snapshot was made`);
    await requireRoom(tables, team, SNAPSHOTS_PER_TEAM_MAX);
    const { snapshotID } = await asSnapshot(tables, team, templateId, tag);
    const names = name === undefined ? [] : [`${team.slug}/${name.alias}`];
    return { snapshotID: name === undefined ? snapshotID : `${names[0]}:${tag}`, names };
  });
}

/** Fault 429 when the team has more snapshots than this. */
async function requireRoom({ templates }: Tables, { id: teamId }: Team, most: number): Promise<void> {
  const all = { teamId, sandboxId: undefined, templateId: undefined, tag: undefined };
  if ((await templates.snapshots(all, undefined, most + 1)).length <= most) return;
  throw new Fault(429, `a team has at most ${SNAPSHOTS_PER_TEAM_MAX} snapshots; delete one first`);
}

/** The template that has this name, or a new one. */
async function templateFor(tables: Tables, team: Team, made: NewSnapshot, wall: RuntimeName | null): Promise<string> {
  const { name, templateId, now } = made;
  const known = name && (await tables.templates.byAlias(team.slug, name.alias));
  if (known !== undefined) return known.id;
  await tables.templates.add({ id: templateId, teamId: team.id, wall, createdAt: now, createdBy: made.createdBy });
  if (name !== undefined && !(await tables.templates.addAlias(team.slug, name.alias, templateId))) {
    throw new Fault(409, `"${name.alias}" was given to another template at the same moment; try again`);
  }
  return templateId;
}
