/** Creates sandboxes, from a template or as copies of a running sandbox. */
import { forEachLimited } from "../../../base/for-each-limited.ts";
import { described } from "../../../base/log.ts";
import { Fault } from "../../../contract/fault.ts";
import type { CreatedSandbox, CreateSandbox, SandboxKind } from "../../../contract/internal/host.ts";
import { RUNTIME_VERSION } from "../../../contract/runtime/version.ts";
import type { Build } from "../../../store/builds.ts";
import type { Team } from "../../../store/people.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";
import { kindForTeam } from "../../templates/shared-memory.ts";
import { kindOfSandbox, type StartableTemplate, sandboxKindOf } from "../../templates/template-lookup.ts";
import { hostMounts, requireVolumes } from "../../volumes/volume-mounts.ts";
import { egressOf, requireOpenProxy } from "../egress.ts";
import { placementFault } from "../host-fault.ts";
import { type CreateKey, recordKey } from "../idempotent-creates.ts";
import type { LifecycleCore } from "../lifecycle-core.ts";
import type { Lease } from "../quota.ts";

export const FORKS_AT_ONCE = 8;

/** The fields that the request of a create decides. */
export type SandboxOptions = Pick<
  Sandbox,
  | "timeoutSeconds"
  | "autoPause"
  | "autoPauseMemory"
  | "autoResume"
  | "metadata"
  | "envVars"
  | "secure"
  | "allowInternetAccess"
  | "network"
  | "mcp"
  | "identityTokens"
  | "volumeMounts"
>;

/** The fields that a row takes from its request and its template, or from its original. */
type RowFields = SandboxOptions & Pick<Sandbox, "teamId" | "templateId" | "buildId" | "alias">;

/** The image or checkpoint that it starts from. */
interface Source {
  kind: SandboxKind;
  checkpoint: string | null;
  /** Only for a new sandbox of a template. */
  build?: Build;
  /** Only for a copy: the original. */
  copyOf?: Sandbox;
  /** Only if the client may repeat the request. */
  key?: CreateKey | undefined;
}

export async function createFromTemplate(
  core: LifecycleCore,
  team: Team,
  from: StartableTemplate,
  options: SandboxOptions,
  key?: CreateKey,
): Promise<Sandbox> {
  const { template, build, alias } = from;
  const origin = { ...options, teamId: team.id, templateId: template.id, buildId: build.id, alias };
  // A snapshot's build keeps the variables of its sandbox. The request overrides them.
  const envVars = { ...build.envVars, ...options.envVars };
  const volumeMounts = options.volumeMounts.length > 0 ? options.volumeMounts : build.volumeMounts;
  await requireOpenProxy(core, team.id, options.network, "network.egressProxy");
  using lease = await core.quota.take(team, { memoryMB: build.memoryMB });
  try {
    const kind = kindForTeam(sandboxKindOf(build), team, core.sharedMemory);
    const source = { kind, checkpoint: build.checkpoint, build, key };
    return await make(core, lease, { ...origin, envVars, volumeMounts }, source);
  } catch (error) {
    // A deleted template or volume explains any failure, so it is reported instead.
    if ((await core.store.templates.byId(template.id)) === undefined) throw deletedMeanwhile(template.id);
    await requireVolumes(core.store, team.id, volumeMounts);
    throw error;
  }
}

/** One copy for each lease, which is then returned. A Fault stands in place of a copy that failed. */
export async function createFromSandbox(
  core: LifecycleCore,
  team: Team,
  source: Sandbox,
  checkpoint: string,
  leases: readonly Lease[],
  timeoutSeconds: number,
): Promise<(Sandbox | Fault)[]> {
  const kind = kindForTeam(await kindOfSandbox(core.store, source), team, core.sharedMemory);
  const results: (Sandbox | Fault)[] = [];
  await forEachLimited([...leases.entries()], FORKS_AT_ONCE, async ([at, own]) => {
    using lease = own;
    const child = make(core, lease, { ...source, timeoutSeconds }, { kind, checkpoint, copyOf: source });
    results[at] = await child.catch((error: unknown) => Fault.from(error));
  });
  return results;
}

async function make(
  core: LifecycleCore,
  lease: Lease,
  origin: RowFields,
  { kind, checkpoint, build, copyOf, key }: Source,
): Promise<Sandbox> {
  const { reachability, clock, ids, log, listener } = core;
  const createdAt = clock.now();
  const tokens = origin.secure ? [ids.sandboxToken()] : [];
  const { envVars, volumeMounts } = origin;
  await requireVolumes(core.store, origin.teamId, volumeMounts);
  const { id, mismatch } = await place(core, {
    kind,
    ...(checkpoint === null ? {} : { checkpoint }),
    ...(build?.start ? { start: build.start } : {}),
    // Only this fork starts from the checkpoint of a copy, so it must not count as demand.
    ...(build === undefined ? {} : { owner: origin.teamId }),
    envVars,
    accessTokens: tokens,
    egress: egressOf(origin, await core.privateRangesOf(origin.teamId)),
    volumes: hostMounts(volumeMounts),
  });
  if (build?.start && (mismatch !== undefined || checkpoint === null)) core.startRepair.noteMismatch(build, mismatch);
  const guestVersion = mismatch === undefined ? guestVersionOf(origin, build, copyOf) : RUNTIME_VERSION;
  lease.sandboxId = id;
  // The timeout begins when the sandbox is up, however long the start took.
  const startedAt = clock.now();
  const sandbox: Sandbox = {
    ...origin,
    id,
    state: "running",
    executionId: ids.uuid(),
    createdAt,
    startedAt,
    endAt: startedAt + origin.timeoutSeconds * 1000,
    pausedAt: null,
    checkpoint: null,
    checkpointMemory: false,
    killWanted: false,
    pauseFailures: 0,
    tokens,
    trafficToken: origin.network.allowPublicTraffic === false ? ids.sandboxToken() : null,
    egressUnsettled: false,
    cpuCount: kind.cpuCount,
    memoryMB: kind.memoryMB,
    diskSizeMB: kind.diskSizeMB,
    guestVersion,
  };
  try {
    await record(core, sandbox, { isCopy: copyOf !== undefined, key });
    // The host lost it before it had a row, so the event found no sandbox.
    if (!reachability.isUp(id) && (await core.lost(sandbox))) {
      throw new Fault(503, "Failed to place sandbox: it ended while it was started; try again");
    }
  } catch (error) {
    if (key !== undefined) await freeKey(core, key, id);
    throw error;
  }
  log.write({ level: "info", event: "sandbox created", sandbox: id, team: origin.teamId, template: kind.templateId });
  listener.onEvent("created", sandbox, copyOf && `forked from ${copyOf.id}`);
  return sandbox;
}

/** Memory has the guest that wrote it. Without memory, or with volumes beside a start command, a sandbox boots. */
function guestVersionOf({ volumeMounts }: RowFields, build: Build | undefined, copyOf: Sandbox | undefined): string {
  if (copyOf !== undefined) return copyOf.guestVersion;
  const boots = build?.checkpoint == null || (build.start !== null && volumeMounts.length > 0);
  return (boots ? null : build.guestVersion) ?? RUNTIME_VERSION;
}

async function place(core: LifecycleCore, request: CreateSandbox): Promise<CreatedSandbox> {
  try {
    const created = await core.host.create(request);
    core.placements.succeeded += 1;
    return created;
  } catch (cause) {
    core.placements.failed += 1;
    throw placementFault(cause);
  }
}

async function record(
  core: LifecycleCore,
  sandbox: Sandbox,
  { isCopy, key }: { isCopy: boolean; key: CreateKey | undefined },
): Promise<void> {
  const { store, host, log, reachability, expiry } = core;
  // Before the row is written, so that an expiry right after it finds a run to end.
  reachability.begin(sandbox);
  try {
    const add = () =>
      store.transaction(async (tables) => {
        const isThere = await tables.templates.noteSpawn(sandbox.templateId, sandbox.startedAt);
        // A copy outlives its template, as its original does.
        if (!isThere && !isCopy) throw deletedMeanwhile(sandbox.templateId);
        await requireVolumes(tables, sandbox.teamId, sandbox.volumeMounts);
        const team = await tables.people.team(sandbox.teamId);
        if (team?.deletingSince !== null) throw new Fault(403, "the team of this sandbox is being deleted");
        await tables.sandboxes.add(sandbox);
        if (key !== undefined) await recordKey(tables, key, sandbox);
        // A running sandbox does not survive a crash of the machine, so its row need not. A change that must, such as a
        // pause, makes this row durable too.
        return sandbox;
      }, "server");
    const { id, executionId } = sandbox;
    await core.begin(id, add, { state: "running", executionId }, "destroyed because the store failed");
  } catch (error) {
    reachability.end(sandbox.id);
    await host.destroy(sandbox.id).catch((second: unknown) => {
      const event = "sandbox without a row could not be destroyed; the next start removes it";
      log.write({ level: "error", event, sandbox: sandbox.id, error: described(second) });
    });
    throw error;
  }
  expiry.noteEnd(sandbox.endAt);
}

/** So that the client may try again with the same key. What fails at first is repeated in the background. */
async function freeKey(core: LifecycleCore, key: CreateKey, sandbox: string): Promise<void> {
  const free = () => core.store.idempotencyKeys.free(key, sandbox);
  await free().catch(() => {
    core.background.run("key of a failed create not freed", () => core.untilRecorded("a failed create", free));
  });
}

function deletedMeanwhile(templateId: string): Fault {
  return new Fault(404, `template "${templateId}" was deleted while a sandbox was created from it`);
}
