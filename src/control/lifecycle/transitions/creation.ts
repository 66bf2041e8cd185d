/** New sandboxes: from a template, or as copies of another one. */

import { described } from "../../../base/log.ts";
import { Fault } from "../../../contract/fault.ts";
import type { CreatedSandbox, CreateSandbox, SandboxKind } from "../../../contract/internal/host.ts";
import type { Build } from "../../../store/builds.ts";
import type { Team } from "../../../store/people.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";
import { kindOf, kindOfSandbox, type StartableTemplate } from "../../templates/template-look-up.ts";
import { demandVolumes, hostMounts } from "../../volumes/volume-mounts.ts";
import { demandOpenProxy, egressOf } from "../egress.ts";
import { placementFault } from "../host-fault.ts";
import type { LifecycleCore } from "../lifecycle-core.ts";
import type { Lease } from "../quota.ts";
import { accessOf } from "../routes/route-access.ts";

export const FORKS_AT_ONCE = 8;

/** What the creator of a sandbox decides. */
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
  | "volumeMounts"
>;

/** What the rest of a row comes from. */
type Origin = SandboxOptions & Pick<Sandbox, "teamId" | "templateId" | "buildId" | "alias">;

/** What it starts as. */
interface Source {
  kind: SandboxKind;
  checkpoint: string | null;
  /** Of a new sandbox of a template. */
  build?: Build;
  /** Of a copy, the original. */
  copyOf?: string;
}

export async function createFromTemplate(
  core: LifecycleCore,
  team: Team,
  from: StartableTemplate,
  options: SandboxOptions,
): Promise<Sandbox> {
  const { template, build, alias } = from;
  const origin = { ...options, teamId: team.id, templateId: template.id, buildId: build.id, alias };
  // What a snapshot was made of has these, too; what the creator says goes before.
  const envVars = { ...build.envVars, ...options.envVars };
  const volumeMounts = options.volumeMounts.length > 0 ? options.volumeMounts : build.volumeMounts;
  await demandOpenProxy(core, team.id, options.network, "network.egressProxy");
  using lease = await core.quota.take(team);
  try {
    const source = { kind: kindOf(build), checkpoint: build.checkpoint, build };
    return await make(core, lease, { ...origin, envVars, volumeMounts }, source);
  } catch (error) {
    // Then whatever else went wrong, it went wrong because of that.
    if ((await core.store.templates.byId(template.id)) === undefined) throw deletedMeanwhile(template.id);
    await demandVolumes(core.store, team.id, volumeMounts);
    throw error;
  }
}

/** One for each lease, which is given back; in place of one that could not be made, the reason. */
export async function createFromSandbox(
  core: LifecycleCore,
  source: Sandbox,
  checkpoint: string,
  leases: readonly Lease[],
  timeoutSeconds: number,
): Promise<(Sandbox | Fault)[]> {
  const kind = await kindOfSandbox(core.store, source);
  const results: (Sandbox | Fault)[] = [];
  const left = leases.entries();
  const makeSome = async () => {
    for (const [at, own] of left) {
      using lease = own;
      const child = make(core, lease, { ...source, timeoutSeconds }, { kind, checkpoint, copyOf: source.id });
      results[at] = await child.catch((error: unknown) => Fault.from(error));
    }
  };
  await Promise.all(Array.from({ length: FORKS_AT_ONCE }, makeSome));
  return results;
}

async function make(
  core: LifecycleCore,
  lease: Lease,
  origin: Origin,
  { kind, checkpoint, build, copyOf }: Source,
): Promise<Sandbox> {
  const { reachability, clock, ids, log, listener } = core;
  const createdAt = clock.now();
  const tokens = origin.secure ? [ids.runtimeToken()] : [];
  const { envVars, allowInternetAccess, network, volumeMounts } = origin;
  await demandVolumes(core.store, origin.teamId, volumeMounts);
  const { id, mismatch } = await place(core, {
    kind,
    ...(checkpoint === null ? {} : { checkpoint }),
    ...(build?.start ? { start: build.start } : {}),
    // Nobody else starts from the checkpoint of a copy.
    ...(build === undefined ? {} : { owner: origin.teamId }),
    envVars,
    accessTokens: tokens,
    egress: egressOf(origin, await core.privateRangesOf(origin.teamId)),
    volumes: hostMounts(volumeMounts),
  });
  if (build?.start && (mismatch !== undefined || checkpoint === null)) core.startRepair.noteMismatch(build, mismatch);
  lease.sandboxId = id;
  // The expiry clock starts when the sandbox is up, however long that took.
  const startedAt = clock.now();
  const sandbox: Sandbox = {
    id,
    teamId: origin.teamId,
    templateId: origin.templateId,
    buildId: origin.buildId,
    alias: origin.alias,
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
    timeoutSeconds: origin.timeoutSeconds,
    autoPause: origin.autoPause,
    autoPauseMemory: origin.autoPauseMemory,
    autoResume: origin.autoResume,
    metadata: origin.metadata,
    envVars,
    secure: origin.secure,
    tokens,
    allowInternetAccess,
    network,
    trafficToken: network.allowPublicTraffic === false ? ids.trafficToken() : null,
    egressUnsettled: false,
    mcp: origin.mcp,
    volumeMounts,
    cpuCount: kind.cpuCount,
    memoryMB: kind.memoryMB,
    diskSizeMB: kind.diskSizeMB,
  };
  await record(core, sandbox, copyOf !== undefined);
  // Lost before there was a row to say so: the host has told us in vain.
  if (!reachability.isUp(id) && (await core.lost(sandbox))) {
    throw new Fault(503, "Failed to place sandbox: it ended while it was started; try again");
  }
  log.write({ level: "info", event: "sandbox created", sandbox: id, team: origin.teamId, template: kind.templateId });
  listener.tell("created", sandbox, copyOf && `forked from ${copyOf}`);
  return sandbox;
}

async function place(core: LifecycleCore, request: CreateSandbox): Promise<CreatedSandbox> {
  try {
    return await core.host.create(request);
  } catch (cause) {
    throw placementFault(cause);
  }
}

async function record(core: LifecycleCore, sandbox: Sandbox, isCopy: boolean): Promise<void> {
  const { store, host, log, reachability, expiry } = core;
  // Before the row, so that an expiry that comes between the two finds it to take out.
  reachability.begin(sandbox.id, sandbox.executionId, accessOf(sandbox));
  try {
    const add = () =>
      store.transaction(async (tables) => {
        const isThere = await tables.templates.noteSpawn(sandbox.templateId, sandbox.startedAt);
        // A copy needs no more of the template than its original did.
        if (!isThere && !isCopy) throw deletedMeanwhile(sandbox.templateId);
        await demandVolumes(tables, sandbox.teamId, sandbox.volumeMounts);
        await tables.sandboxes.add(sandbox);
        // A running sandbox does not survive a crash of the machine. Whatever has to, as a pause, takes this row along.
        return sandbox;
      }, "server");
    await core.begin(sandbox.id, add, () => core.lost(sandbox, "it was destroyed, for the store has failed"));
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

function deletedMeanwhile(templateId: string): Fault {
  return new Fault(404, `template "${templateId}" was deleted while a sandbox was created from it`);
}
