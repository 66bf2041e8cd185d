/**
 * The host of this machine: implements `contract/internal/host.ts` with the modules below it. starting.ts makes
 * sandboxes with booting.ts or restoring.ts, checkpointing.ts writes checkpoints, and cleanup.ts removes leftovers.
 * Every step can be undone without the later ones, so a server killed at any point leaves only what `adopt` finds by
 * name and removes. The host never decides what a tenant may do; control does.
 */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { systemClock } from "../base/clock.ts";
import { described, stderrLog } from "../base/log.ts";
import { KeyedQueue } from "../base/serial-queue.ts";
import type { BuildRunner } from "../builder/build-runner.ts";
import type { Layers } from "../builder/layers.ts";
import { boundsOf, openBuilds } from "../builder/open-builds.ts";
import { Fault } from "../contract/fault.ts";
import type {
  CheckpointOptions,
  CreatedSandbox,
  CreateSandbox,
  Egress,
  Host,
  HostEvent,
  Inventory,
  KeptReady,
  ResumeSandbox,
  RuleAnswer,
  StoredImages,
  Usage,
} from "../contract/internal/host.ts";
import type { RuleRequest } from "../egress/relay-messages.ts";
import { Checkpointing } from "../sandbox/checkpointing.ts";
import type { Leftovers } from "../sandbox/cleanup.ts";
import { Endings } from "../sandbox/endings.ts";
import { GuestJournals } from "../sandbox/guest-link/guest-journal.ts";
import { GuestPages } from "../sandbox/guest-link/guest-pages.ts";
import { type MemoryReserve, MemoryWatch } from "../sandbox/memory-watch.ts";
import { openReadyPool } from "../sandbox/pool/open-pool.ts";
import type { PoolReport } from "../sandbox/pool/pool-report.ts";
import type { ReadyPool } from "../sandbox/pool/ready-pool.ts";
import { QueueWatch } from "../sandbox/queue-watch.ts";
import { RunningSandboxes } from "../sandbox/running-sandboxes.ts";
import { isAlive, recordsIn, type SandboxRecord } from "../sandbox/sandbox-record.ts";
import { requireRetryable } from "../sandbox/start-fault.ts";
import { Starting } from "../sandbox/starting.ts";
import { UsageMeter } from "../sandbox/usage.ts";
import { memoryLeft } from "../system/cgroup/memory-left.ts";
import { Processors } from "../system/cgroup/processors.ts";
import { guestUses, imageUses } from "./guest-uses.ts";
import { KsmdControl } from "./ksmd.ts";
import { type MachineOptions, type MachineParts, openParts } from "./machine-parts.ts";
import { TemplateSandboxes } from "./template-sandboxes.ts";
import type { Transfers } from "./transfer/transfers.ts";

export type { MachineOptions } from "./machine-parts.ts";

const LIVENESS_CHECK_MS = 500;

export class Machine implements Host {
  readonly #running: RunningSandboxes;
  readonly #turns = new KeyedQueue();
  readonly #journals = new GuestJournals();
  readonly #meter = new UsageMeter();
  readonly #starting: Starting;
  readonly #checkpointing: Checkpointing;
  readonly #endings: Endings;
  readonly #pages: GuestPages;
  readonly #pool: ReadyPool;
  readonly #sandboxes: TemplateSandboxes;
  readonly #layers: Layers;
  readonly #builds: BuildRunner;
  readonly #liveness: Timer;
  readonly #queues: QueueWatch;
  readonly #merging: KsmdControl;
  readonly #memory: MemoryWatch | undefined;
  readonly lookUp: Host["lookUp"] = (...args) => this.parts.network.lookUp(...args);
  readonly createVolume: Host["createVolume"] = (...args) => this.parts.volumes.create(...args);
  readonly build: Host["build"] = (request) => this.#builds.build(request);
  readonly cancelBuild: Host["cancelBuild"] = (...args) => this.#builds.cancel(...args);
  readonly prepareStart: Host["prepareStart"] = (request) => this.#builds.prepareStart(request);

  private constructor(
    readonly options: MachineOptions,
    readonly parts: MachineParts,
  ) {
    const { data, guestFolder } = options;
    const { network, mounts } = parts;
    this.#running = new RunningSandboxes(data.sandboxesFolder, network);
    network.onTrouble = (address, message) => this.#running.emitTrouble(address, message);
    network.onRuleRequest = (asked) => this.#forwardRuleRequest(asked);
    this.#pages = new GuestPages(mounts);
    this.#endings = new Endings({ ...parts, data }, options.endWithinMs);
    this.#checkpointing = new Checkpointing({ ...parts, data });
    this.#starting = new Starting({
      ...parts,
      running: this.#running,
      processors: new Processors(),
      pages: this.#pages,
      guestFolder,
      cgroup: data.cgroup,
      removeResources: (leftovers) => this.#removeResources(leftovers),
    });
    this.#merging = new KsmdControl({ cgroup: data.cgroup, ksmd: options.ksmd, log: stderrLog });
    const makers = { ...options, ...parts, running: this.#running, starting: this.#starting };
    this.#pool = openReadyPool({ ...makers, discard: (id) => this.destroy(id) });
    this.#sandboxes = new TemplateSandboxes({
      ...makers,
      pool: this.#pool,
      bounds: boundsOf(options),
      destroy: (id) => this.#discard(id),
    });
    const opened = openBuilds({ ...makers, checkpointing: this.#checkpointing, sandboxes: this.#sandboxes });
    [this.#layers, this.#builds] = [opened.layers, opened.builds];
    this.#liveness = setInterval(() => this.#checkLiveness(), LIVENESS_CHECK_MS);
    this.#liveness.unref();
    this.#queues = new QueueWatch(
      () => this.#running.records(),
      (id, reason) => this.#handleLoss(id, reason),
    );
    this.#memory = options.memoryReserve && this.#watchMemory(options.memoryReserve);
  }

  static async open(options: MachineOptions): Promise<Machine> {
    return new Machine(options, await openParts(options));
  }

  events(listener: (event: HostEvent) => void): void {
    this.#journals.onEvent(listener);
    this.#running.listen(listener);
  }

  async create(request: CreateSandbox): Promise<CreatedSandbox> {
    this.parts.images.require(request.kind.image);
    const began = performance.now();
    try {
      return await this.#make(request);
    } catch (cause) {
      if (request.checkpoint !== undefined || request.start !== undefined) throw cause;
      requireRetryable(cause, performance.now() - began);
      const event = "a sandbox could not be created at the first attempt";
      stderrLog.write({ level: "warn", event, error: described(cause) });
    }
    return await this.#make(request);
  }

  async pause(id: string, name: string, options: CheckpointOptions): Promise<void> {
    // Held until the kernel has cleaned up: the next call for this sandbox waits for that, but not this caller.
    using held = new DisposableStack();
    const turn = this.#turns.enter(id);
    // Without an await where possible: the sandbox is unreachable from the start of the call.
    held.use(turn instanceof Promise ? await turn : turn);
    const running = this.#running.require(id);
    held.use(this.parts.images.hold(running.record.kind.image));
    this.#running.hide(id);
    this.#journals.unfollow(id);
    try {
      await running.guest.settle();
      this.#running.saveRecord({ ...running.record, pausingInto: name });
      await this.#checkpointing.write(running.record, name, options, "stays frozen");
    } catch (cause) {
      this.#running.add(running.record);
      this.#journals.follow(id, this.#running.announce(id).guest);
      this.#running.saveRecord(running.record);
      throw cause;
    }
    // From here on the checkpoint is the sandbox. The next resume or server start removes what remains.
    await this.#endings.endProcesses(id);
    const clearing = held.move();
    this.#endings
      .end({ ...running.record, willResume: true })
      .catch((error) => logFailure("leftovers of a paused sandbox could not be removed", error, id))
      .finally(() => clearing.dispose());
  }

  async resume(request: ResumeSandbox): Promise<void> {
    const { id } = request;
    await this.#turns.run(id, async () => {
      this.parts.images.require(request.kind.image);
      if (this.#running.has(id)) throw new Fault(409, `sandbox ${id} is already running`);
      if (existsSync(this.#running.folderOf(id))) await this.#endings.endById(id);
      try {
        using _start = this.#pool.trackClientStart();
        await this.#starting.fromCheckpoint(request, false);
        this.#merging.note(request.kind);
        this.#journals.follow(id, this.#running.announce(id).guest);
      } catch (cause) {
        this.#running.hide(id);
        await this.#endings.endById(id);
        throw cause;
      }
    });
  }

  async snapshot(id: string, name: string, options: CheckpointOptions): Promise<void> {
    await this.#turns.run(id, async () => {
      const { record, guest } = this.#running.require(id);
      using _image = this.parts.images.hold(record.kind.image);
      // A journal connection in the checkpoint would have to be closed in every copy.
      this.#journals.unfollow(id);
      try {
        await guest.settle();
        await this.#checkpointing.write(record, name, options, "keeps running");
      } finally {
        if (this.#running.has(id)) this.#journals.follow(id, guest);
      }
    });
  }

  async removeCheckpoint(name: string): Promise<void> {
    this.#pool.forget(({ checkpoint }) => checkpoint === name);
    await this.parts.checkpoints.remove(name);
  }

  /** As `Transfers.export`. A running sandbox has no checkpoint that is complete. */
  async exportCheckpoint(name: string): Promise<string> {
    return await this.#requireTransfers().export(name);
  }

  /** As `Transfers.import`. */
  async importCheckpoint(digest: string): Promise<string> {
    return await this.#requireTransfers().import(digest);
  }

  async destroy(id: string): Promise<void> {
    // Unreachable at once, even while another call for this sandbox runs.
    this.#running.hide(id);
    this.#journals.unfollowSoon(id);
    await this.#turns.run(id, async () => {
      this.#running.hide(id);
      // Reads the record now: a resume that failed meanwhile has freed its slot, maybe for another sandbox.
      await this.#endings.endById(id);
    });
  }

  async setEgress(id: string, egress: Egress): Promise<void> {
    await this.#turns.run(id, async () => {
      const { record } = this.#running.require(id);
      // The record first: if the server is killed in between, the next one applies these rules.
      this.#running.saveRecord({ ...record, egress });
      try {
        await this.parts.network.setEgress(record.slot, egress);
      } catch (cause) {
        this.#running.saveRecord(record);
        throw cause;
      }
      record.egress = egress;
      await this.#setTrust(record);
    });
  }

  async answerRule(question: string, answer: RuleAnswer): Promise<void> {
    this.parts.network.answerRule(question, answer);
  }

  async forward(id: string, port: number): Promise<number | undefined> {
    return await this.#running.get(id)?.guest.forward(port);
  }

  /** State of the ready pool. */
  poolReport(): PoolReport {
    return this.#pool.report();
  }

  /** The address of a running sandbox, for processes on this machine. */
  addressOf(id: string): string | undefined {
    return this.#running.get(id)?.guest.address;
  }

  async adopt(keep: Inventory): Promise<Inventory> {
    // The cleanup of a sandbox that was just paused may still be running.
    await this.#turns.settled();
    await this.parts.runtimes.recover();
    const kept = new Map<string, SandboxRecord>();
    const wanted = new Set(keep.sandboxes);
    for (const record of recordsIn(this.options.data.sandboxesFolder)) {
      if (!wanted.has(record.id) || !isAlive(record) || this.#isInCheckpoint(record)) continue;
      await this.#checkpointing
        .recover(record)
        .catch((error) => logFailure("a sandbox may be frozen: its pause was interrupted", error, record.id));
      kept.set(record.id, record);
      this.#running.add(record);
      this.#journals.followSoon(record.id, this.#running.announce(record.id).guest);
      this.#merging.note(record.kind);
      // The server may have been killed before it configured the guest, or have another authority now.
      void this.#turns.run(record.id, () => this.#setTrust(record));
      this.#pages
        .hold(record.guestFolder)
        .then((start) => start[Symbol.dispose]())
        .catch((error) => logFailure("an earlier guest could not be locked in memory", error, record.id));
    }
    this.#running.keepOnly(kept);
    await this.#endings.reap(kept);
    await this.parts.network.admitAll();
    await this.#layers.recover();
    const checkpoints = await this.parts.checkpoints.keepOnly(new Set(keep.checkpoints));
    return { sandboxes: [...kept.keys()], checkpoints: [...checkpoints] };
  }

  async requestLog(id: string, after: string | null): Promise<void> {
    this.#journals.acknowledge(id, after);
  }

  async deferLog(id: string): Promise<void> {
    this.#journals.defer(id);
  }

  async measure(ids: readonly string[]): Promise<Record<string, Usage>> {
    return Object.fromEntries(await this.#meter.readAll(this.#running.alive(ids)));
  }

  async processorTimes(ids: readonly string[]): Promise<Record<string, number>> {
    return Object.fromEntries(this.#meter.processorTimes(this.#running.alive(ids)));
  }

  async collectImages(keep: readonly string[]): Promise<StoredImages> {
    this.#pool.forget(({ kind }) => !keep.includes(kind.image));
    const { data, builtinImages } = this.options;
    const uses = imageUses(data, this.parts.checkpoints, () => builtinImages?.current() ?? []);
    // A backup reads images and guests; the next round removes them.
    using lock = data.lockImages();
    if (lock !== undefined) {
      // Left by a backup that was killed.
      await rm(this.parts.disks.backupFolder, { recursive: true, force: true });
      await this.parts.images.collect(keep, uses.own, uses.others);
      await this.parts.guests.collectNowAndThen(guestUses(data, this.parts.checkpoints, this.#pages));
    }
    await this.#builds.collect();
    return { images: this.parts.images.list(), layerBytes: await this.#layers.bytes() };
  }

  async removeLayers(owner: string): Promise<void> {
    await this.#layers.removeOf(owner);
  }

  async removeVolume(name: string): Promise<void> {
    await this.parts.content.end(name);
    await this.parts.volumes.remove(name);
  }

  async keepReady(kept: readonly KeptReady[]): Promise<void> {
    this.#pool.keep(kept);
  }

  async close(): Promise<void> {
    clearInterval(this.#liveness);
    this.#queues.close();
    this.#memory?.close();
    await this.#merging.close();
    this.#journals.close();
    await this.#builds.close();
    await this.#pool.close();
    await this.#turns.settled();
    await this.#endings.close();
    await this.parts.runtimes.close();
    await this.parts.content.close();
    await this.parts.volumes.close();
    await this.parts.network.close();
    this.parts.dns.close();
    this.parts.mounts.close();
  }

  /** Returns an announced sandbox, or leaves nothing behind. */
  async #make(request: CreateSandbox): Promise<CreatedSandbox> {
    const made = await this.#sandboxes.create(request);
    this.#merging.note(request.kind);
    try {
      this.#journals.follow(made.id, this.#running.announce(made.id).guest, true);
      return made;
    } catch (cause) {
      await this.#discard(made.id);
      throw cause;
    }
  }

  /** Fails the request of a sandbox that is not announced yet: nothing above the host knows it. */
  #forwardRuleRequest({ question, source, pattern, host }: RuleRequest): void {
    const id = this.#running.announcedAt(source);
    if (id !== undefined) this.#running.emit({ kind: "rule-requested", question, id, pattern, host });
    else
      this.parts.network.answerRule(question, { failure: `header rule "${pattern}": the sandbox is still starting` });
  }

  /** Removes a sandbox without an owner. Never throws. */
  async #discard(id: string): Promise<void> {
    await this.destroy(id).catch((error) =>
      logFailure("a sandbox that was not handed out could not be removed", error, id),
    );
  }

  async #removeResources(leftovers: Leftovers): Promise<void> {
    await this.#endings
      .end(leftovers)
      .catch((error) => logFailure("a sandbox that did not start could not be removed", error, leftovers.id));
  }

  #requireTransfers(): Transfers {
    const { transfers } = this.parts;
    if (transfers === undefined) throw new Fault(500, "this machine shares no blobs with others");
    return transfers;
  }

  /** Never throws: without trust, requests to names with rules fail, and the rules still apply. */
  async #setTrust({ id, egress }: SandboxRecord): Promise<void> {
    await this.#starting.setTrust(id, egress).catch((error) => {
      logFailure("the certificate of header rules could not be changed in a guest", error, id);
      const message = "The certificate of the header rules could not be added or removed: the runtime did not respond";
      this.#running.emit({ kind: "trouble", id, message });
    });
  }

  #watchMemory({ percent, read = () => memoryLeft(this.options.data.cgroup) }: MemoryReserve): MemoryWatch {
    return new MemoryWatch({
      percent,
      read,
      suspendPool: (isShort) => this.#pool.setSuspended(isShort),
      emit: (event) => this.#running.emit(event),
      clock: systemClock,
      log: stderrLog,
    });
  }

  #checkLiveness(): void {
    for (const { record } of this.#running.lost()) this.#handleLoss(record.id, "its first process ended");
    this.#pages
      .unlockUnused(this.#running.records())
      .catch((error) =>
        stderrLog.write({ level: "error", event: "unused guests stay locked in memory", error: described(error) }),
      );
  }

  #handleLoss(id: string, reason: string): void {
    const wasAnnounced = this.#running.get(id)?.isAnnounced;
    stderrLog.write({ level: "warn", event: "a sandbox ended by itself", sandbox: id, reason });
    this.#pool.lost(id);
    this.destroy(id).catch((error) => logFailure("a lost sandbox could not be removed", error, id));
    if (wasAnnounced) this.#running.emit({ kind: "lost", id, reason });
  }

  #isInCheckpoint({ pausingInto }: SandboxRecord): boolean {
    return pausingInto !== undefined && this.parts.checkpoints.has(pausingInto);
  }
}

function logFailure(event: string, error: unknown, sandbox: string): void {
  stderrLog.write({ level: "error", event, sandbox, error: described(error) });
}
