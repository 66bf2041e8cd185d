/**
 * Starts sandboxes, a limited number concurrently: fresh ones, ones from a checkpoint, and ones for the ready pool. A
 * caller gets its sandbox once the network rules and the guest settings of the request apply.
 *
 * The module src/sandbox boots, checkpoints, restores and cleans up single sandboxes. It never decides whether a
 * request is allowed, and it keeps no state of tenants or templates.
 */
import { availableParallelism } from "node:os";
import { Semaphore } from "../base/semaphore.ts";
import { Fault } from "../contract/fault.ts";
import { newSandboxId } from "../contract/ids.ts";
import type { CreateSandbox, Egress, ResumeSandbox, SandboxKind, VolumeMount } from "../contract/internal/host.ts";
import type { GuestSettings } from "../contract/runtime/guest-control.ts";
import type { Disks } from "../images/disk/disks.ts";
import type { GuestFolders } from "../images/guest-folders.ts";
import type { Images } from "../images/images.ts";
import { limitThroughput } from "../system/cgroup/disk-throughput.ts";
import type { Processors } from "../system/cgroup/processors.ts";
import type { IdRange } from "../system/id-range.ts";
import type { IdRanges } from "../system/id-ranges.ts";
import { deviceOf } from "../system/mount/loop-devices.ts";
import type { Mounts } from "../system/mount/mounts.ts";
import { boot, type DiskOrigin } from "./booting.ts";
import type { Checkpoints } from "./checkpoint/checkpoints.ts";
import { requireFit, requireSameVolumes } from "./checkpoint/manifest.ts";
import type { Leftovers } from "./cleanup.ts";
import type { GuestPages } from "./guest-link/guest-pages.ts";
import type { Network } from "./network/network.ts";
import { restoreSandbox } from "./restoring.ts";
import type { RunningSandbox, RunningSandboxes } from "./running-sandboxes.ts";
import type { Runtimes } from "./runtime/runtimes.ts";
import type { SandboxRecord } from "./sandbox-record.ts";
import type { VolumeContentProcesses } from "./volume/content.ts";
import type { Volumes } from "./volume/volume-disks.ts";

export const RESTORES_AT_ONCE_MAX = Math.max(4, 2 * availableParallelism());

/**
 * A boot is CPU-bound: two per processor keep all processors busy. More would only delay all of them and other
 * requests, because each boot also uses the server's own thread.
 */
const BOOTS_AT_ONCE_MAX = Math.min(Math.max(2 * availableParallelism(), 4), 32);
/** Restores in all stages: being prepared, being restored, and waiting for their guest's first response. */
const RESTORES_BEGUN_MAX = 2 * RESTORES_AT_ONCE_MAX;

interface StartingParts {
  running: RunningSandboxes;
  checkpoints: Checkpoints;
  runtimes: Runtimes;
  network: Network;
  ranges: IdRanges;
  disks: Disks;
  mounts: Mounts;
  processors: Processors;
  pages: GuestPages;
  guestFolder: string;
  guests: Pick<GuestFolders, "hold">;
  images: Images;
  volumes: Volumes;
  content: VolumeContentProcesses;
  cgroup: string;
  /** Sandboxes with header rules trust it. */
  ruleAuthority: { readonly certificatePem: string };
  /** Removes what was made for a sandbox that failed to start. Never throws. */
  removeResources(leftovers: Leftovers): Promise<void>;
}

export class Starting {
  readonly #boots = new Semaphore(BOOTS_AT_ONCE_MAX);
  readonly #restores = new Semaphore(RESTORES_BEGUN_MAX);
  readonly #restoring = new Semaphore(RESTORES_AT_ONCE_MAX);

  constructor(private readonly parts: StartingParts) {}

  /** With the network rules and settings of the request from the start, so no hand-over is needed. */
  async bootFor(request: CreateSandbox, origin?: DiskOrigin): Promise<string> {
    const id = newSandboxId();
    const { kind, egress, volumes = [] } = request;
    await this.#bootAs(id, kind, origin, egress, volumes, this.#settingsFor(id, request));
    return id;
  }

  async startAhead(kind: SandboxKind, checkpoint: string | null): Promise<string> {
    const id = newSandboxId();
    if (checkpoint === null) {
      await this.#bootAs(id, kind, undefined, "open", []);
      const sandbox = this.#requireStarted(id);
      const { showsProcesses } = this.parts.runtimes.of(sandbox.record.wall);
      sandbox.ahead = { showsProcesses };
      return id;
    }
    const withoutOwner = { envVars: {}, accessTokens: [], egress: "open" as const };
    await this.#fromCheckpoint({ ...withoutOwner, id, kind, checkpoint, memory: true }, true, false);
    return id;
  }

  /** Starts a sandbox from a checkpoint under the requested id and hands it over. */
  async fromCheckpoint(request: ResumeSandbox, copy: boolean): Promise<void> {
    await this.#fromCheckpoint(request, copy, true);
  }

  async #fromCheckpoint(request: ResumeSandbox, copy: boolean, handsOver: boolean): Promise<void> {
    const { checkpoints, runtimes, pages, guests, images } = this.parts;
    const { folder, manifest } = checkpoints.read(request.checkpoint);
    const { id, kind, egress } = request;
    const { memory } = manifest;
    if (!request.memory || memory === undefined) {
      await this.#bootAs(id, kind, { disk: folder, copy }, egress, request.volumes ?? []);
      if (handsOver) await this.handOver(id, request);
      return;
    }
    using _guest = guests.hold(memory.guestFolder);
    requireSameVolumes(memory, request.volumes ?? []);
    const runtimeName = runtimes.nameFor(kind);
    const runtime = runtimes.of(runtimeName);
    requireFit(memory, runtimeName, runtime);
    await checkpoints.requireIntact(request.checkpoint, folder, memory.files);
    using _pages = await pages.hold(memory.guestFolder);
    using _image = images.hold(kind.image);
    using _permit = await this.#restores.acquire();
    const settings = handsOver ? this.#settingsFor(id, request) : undefined;
    const turn = () => this.#restoring.acquire();
    const restore = { id, kind, runtimeName, runtime, checkpoint: folder, memory, egress, copy, settings, turn };
    await this.#add(await restoreSandbox({ ...this.parts, ...this.#places(id, kind), ...restore }));
  }

  /** Hands a running sandbox to its caller: network rules first, then guest settings. */
  async handOver(id: string, request: CreateSandbox): Promise<void> {
    const { network } = this.parts;
    const sandbox = this.#requireStarted(id);
    const { record, guest, ahead } = sandbox;
    if (!Bun.deepEquals(record.egress, request.egress)) {
      record.egress = request.egress;
      this.parts.running.saveRecord(record);
      await network.setEgress(record.slot, request.egress);
    }
    delete sandbox.ahead;
    if (ahead !== undefined) guest.show(this.#settingsFor(id, request));
    else await guest.configure(this.#settingsFor(id, request));
    // The sandbox may have ended unnoticed before or during the hand-over.
    this.#requireStarted(id);
  }

  /** Programs that start from now on trust the authority of header rules only if there are any. */
  async setTrust(id: string, egress: Egress): Promise<void> {
    await this.parts.running.get(id)?.guest.trust(this.#trusted(egress));
  }

  #settingsFor(id: string, { kind, envVars, accessTokens, egress }: CreateSandbox): GuestSettings {
    const { templateId, defaultUser, defaultWorkdir } = kind;
    const trustedAuthority = this.#trusted(egress);
    const settings = { sandboxId: id, templateId, envVars, accessTokens, defaultUser, defaultWorkdir };
    return trustedAuthority === undefined ? settings : { ...settings, trustedAuthority };
  }

  #trusted(egress: Egress): string | undefined {
    const hasRules = typeof egress === "object" && (egress.ruleNames ?? []).length > 0;
    return hasRules ? this.parts.ruleAuthority.certificatePem : undefined;
  }

  #requireStarted(id: string): RunningSandbox {
    const { running } = this.parts;
    const sandbox = running.get(id);
    if (sandbox !== undefined && running.isAlive(id)) return sandbox;
    throw new Fault(500, `sandbox ${id} ended before it was handed over`);
  }

  async #bootAs(
    id: string,
    kind: SandboxKind,
    origin: DiskOrigin | undefined,
    egress: Egress,
    volumeMounts: readonly VolumeMount[],
    settings?: GuestSettings,
  ): Promise<void> {
    const { images, pages, guestFolder } = this.parts;
    using _image = images.hold(kind.image);
    using _permit = await this.#boots.acquire();
    using _pages = await pages.hold(guestFolder);
    const wanted = { id, kind, origin, egress, volumeMounts, settings };
    await this.#add(await boot({ ...this.parts, ...this.#places(id, kind), ...wanted }));
  }

  /** Removes a sandbox again if the operator's disk throughput limit cannot be applied to it. */
  async #add(record: SandboxRecord): Promise<void> {
    const { disks, running, removeResources } = this.parts;
    const { bytesPerSecond } = disks;
    try {
      const device = bytesPerSecond === undefined ? undefined : deviceOf(disks.imageOf(record.disk));
      // A sandbox that has already ended has no device.
      if (bytesPerSecond !== undefined && device !== undefined) limitThroughput(record.cgroup, device, bytesPerSecond);
    } catch (cause) {
      await removeResources(record);
      throw cause;
    }
    running.add(record);
  }

  #places(id: string, kind: SandboxKind) {
    const { running, cgroup, images, removeResources } = this.parts;
    return {
      folder: running.folderOf(id),
      cgroup: `${cgroup}/${id}`,
      lowers: images.lowersOf(kind.image),
      guestOf: (record: SandboxRecord) => running.guestOf(record),
      removeResources: (slot: number, { first }: IdRange, disk: string) =>
        removeResources({ id, slot, firstId: first, disk }),
    };
  }
}
