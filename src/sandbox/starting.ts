/**
 * Starts sandboxes, a few at a time: fresh ones, ones from a checkpoint, and ones that nobody has asked for yet. A
 * sandbox is handed over when it has the walls and the settings of whoever asked for it.
 */

import { availableParallelism } from "node:os";
import { Gate } from "../base/gate.ts";
import { Fault } from "../contract/fault.ts";
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
import { boot, type Origin } from "./booting.ts";
import type { Checkpoints } from "./checkpoint/checkpoints.ts";
import { demandFit, demandSameVolumes } from "./checkpoint/manifest.ts";
import type { Leftovers } from "./cleanup.ts";
import type { GuestPages } from "./guest-link/guest-pages.ts";
import { UsualTime } from "./guest-link/usual-time.ts";
import { RESTORES_AT_ONCE_MAX } from "./limits.ts";
import type { Network } from "./network/network.ts";
import { restoreSandbox } from "./restoring.ts";
import type { RunningSandbox, RunningSandboxes } from "./running-sandboxes.ts";
import type { Runtimes } from "./runtime/runtimes.ts";
import { newSandboxId } from "./sandbox-id.ts";
import { type SandboxRecord, wallOf } from "./sandbox-record.ts";
import type { ProcessedContent } from "./volume/content.ts";
import type { Volumes } from "./volume/volumes.ts";

/**
 * A boot is work of processors: with two for each of them none is idle, and more would only make all of them late, and
 * whoever asks the server for something else. Its own thread has a part in each.
 */
const BOOTS_AT_ONCE_MAX = Math.min(Math.max(2 * availableParallelism(), 4), 32);
/** Restores, with those that are prepared while others are restored, and those whose guest has yet to answer. */
const RESTORES_BEGUN_MAX = 2 * RESTORES_AT_ONCE_MAX;

interface StartingParts {
  running: RunningSandboxes;
  checkpoints: Checkpoints;
  walls: Runtimes;
  network: Network;
  ranges: IdRanges;
  disks: Disks;
  mounts: Mounts;
  processors: Processors;
  pages: GuestPages;
  /** What is mounted into every sandbox that boots. */
  guestFolder: string;
  guests: Pick<GuestFolders, "hold">;
  images: Images;
  volumes: Volumes;
  content: ProcessedContent;
  /** The cgroup of all sandboxes of this server. */
  cgroup: string;
  /** Takes back what was made of a sandbox that did not come to run. Never throws. */
  unmake(leftovers: Leftovers): Promise<void>;
}

export class Starting {
  readonly #parts: StartingParts;
  readonly #boots = new Gate(BOOTS_AT_ONCE_MAX);
  readonly #restores = new Gate(RESTORES_BEGUN_MAX);
  readonly #restoring = new Gate(RESTORES_AT_ONCE_MAX);
  readonly #usual = new UsualTime();

  constructor(parts: StartingParts) {
    this.#parts = parts;
  }

  /**
   * A sandbox of this kind that runs and belongs to nobody yet, unless it has volumes, which are somebody's; with a
   * fresh disk, or a copy of one.
   */
  async boot(kind: SandboxKind, origin?: Origin, volumes: readonly VolumeMount[] = []): Promise<string> {
    const id = newSandboxId();
    await this.#bootAs(id, kind, origin, "open", volumes);
    return id;
  }

  /** One for whoever asks: it has their walls and settings from the start, and need not be handed over. */
  async bootFor(request: CreateSandbox): Promise<string> {
    const id = newSandboxId();
    const { kind, egress, volumes = [] } = request;
    await this.#bootAs(id, kind, undefined, egress, volumes, settingsFor(id, request));
    return id;
  }

  /** One that nobody has asked for yet, from a checkpoint or booted. */
  async startAhead(kind: SandboxKind, checkpoint: string | null): Promise<string> {
    const { walls } = this.#parts;
    if (checkpoint === null) {
      const booted = await this.boot(kind);
      const sandbox = this.#demandStarted(booted);
      const { showsProcesses } = walls.of(wallOf(sandbox.record));
      sandbox.ahead = { showsProcesses, isStopped: false };
      return booted;
    }
    const id = newSandboxId();
    const nobodys = { envVars: {}, accessTokens: [], egress: "open" as const };
    await this.#fromCheckpoint({ ...nobodys, id, kind, checkpoint, memory: true }, true, false);
    return id;
  }

  /** What is in a checkpoint runs, under the id that is asked for, and is handed over. */
  async fromCheckpoint(request: ResumeSandbox, copy: boolean): Promise<void> {
    await this.#fromCheckpoint(request, copy, true);
  }

  async #fromCheckpoint(request: ResumeSandbox, copy: boolean, handsOver: boolean): Promise<void> {
    const { checkpoints, walls, pages, guests, images } = this.#parts;
    const { folder, manifest } = checkpoints.read(request.checkpoint);
    const { id, kind, egress } = request;
    const { memory } = manifest;
    if (!request.memory || memory === undefined) {
      await this.#bootAs(id, kind, { disk: folder, copy }, egress, request.volumes ?? []);
      if (handsOver) await this.handOver(id, request);
      return;
    }
    using _guest = guests.hold(memory.guestFolder);
    demandSameVolumes(memory, request.volumes ?? []);
    const wall = walls.nameFor(kind);
    const runtime = walls.of(wall);
    demandFit(memory, wall, runtime);
    await checkpoints.demandIntact(request.checkpoint, folder, memory.files);
    await pages.hold(memory.guestFolder);
    using _image = images.hold(kind.image);
    using _place = await this.#restores.enter();
    const settings = handsOver ? settingsFor(id, request) : undefined;
    const turn = () => this.#restoring.enter();
    const restore = { id, kind, wall, runtime, checkpoint: folder, memory, egress, copy, settings, turn };
    await this.#add(await restoreSandbox({ ...this.#parts, ...this.#places(id, kind), ...restore }));
  }

  /** Makes a sandbox that runs the caller's: its walls first, then its settings. */
  async handOver(id: string, request: CreateSandbox): Promise<void> {
    const { network } = this.#parts;
    const sandbox = this.#demandStarted(id);
    const { record, guest, ahead } = sandbox;
    if (!Bun.deepEquals(record.egress, request.egress)) {
      record.egress = request.egress;
      this.#parts.running.keep(record);
      await network.setEgress(record.slot, request.egress);
    }
    delete sandbox.ahead;
    if (ahead !== undefined) guest.show(settingsFor(id, request));
    else await guest.configure(settingsFor(id, request));
    // It may have ended meanwhile, or before, and nobody has noticed.
    this.#demandStarted(id);
  }

  #demandStarted(id: string): RunningSandbox {
    const { running } = this.#parts;
    const sandbox = running.get(id);
    if (sandbox !== undefined && running.isAlive(id)) return sandbox;
    throw new Fault(500, `sandbox ${id} ended before it was handed over`);
  }

  async #bootAs(
    id: string,
    kind: SandboxKind,
    origin: Origin | undefined,
    egress: Egress,
    volumeMounts: readonly VolumeMount[],
    settings?: GuestSettings,
  ): Promise<void> {
    using _image = this.#parts.images.hold(kind.image);
    using _place = await this.#boots.enter();
    const wanted = { id, kind, origin, egress, volumeMounts, settings, usual: this.#usual };
    await this.#add(await boot({ ...this.#parts, ...this.#places(id, kind), ...wanted }));
  }

  /** One that cannot be limited as the operator says does not run on. */
  async #add(record: SandboxRecord): Promise<void> {
    const { disks, running, unmake } = this.#parts;
    const { bytesPerSecond } = disks;
    try {
      const device = bytesPerSecond === undefined ? undefined : deviceOf(disks.imageOf(record.disk));
      // One that has ended already has none.
      if (bytesPerSecond !== undefined && device !== undefined) limitThroughput(record.cgroup, device, bytesPerSecond);
    } catch (cause) {
      await unmake(record);
      throw cause;
    }
    running.add(record);
  }

  #places(id: string, kind: SandboxKind) {
    const { running, cgroup, images, unmake } = this.#parts;
    return {
      folder: running.folderOf(id),
      cgroup: `${cgroup}/${id}`,
      lowers: images.lowersOf(kind.image),
      guestOf: (record: SandboxRecord) => running.guestOf(record),
      unmake: (slot: number, { first }: IdRange, disk: string) => unmake({ id, slot, firstId: first, disk }),
    };
  }
}

function settingsFor(id: string, { kind, envVars, accessTokens }: CreateSandbox): GuestSettings {
  const { templateId, defaultUser, defaultWorkdir } = kind;
  return { sandboxId: id, templateId, envVars, accessTokens, defaultUser, defaultWorkdir };
}
