/**
 * The Host on this machine, put together from its parts. A sandbox is made by booting.ts, or by reviving.ts when it comes from a
 * checkpoint with memory; checkpointing.ts writes those, and clearing.ts takes away what is left. Every step can be undone
 * without the ones after it, so a server that was killed anywhere in between leaves only what `adopt` finds by name and removes.
 */
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import { Gate } from "../work/gate.ts";
import { described, stderrLog } from "../work/log.ts";
import { OneAtATimeByKey } from "../work/one-at-a-time.ts";
import { killFrozen, thaw } from "./cgroup/freezer.ts";
import { Processors } from "./cgroup/processors.ts";
import { Checkpoints } from "./checkpoint/checkpoints.ts";
import { demandFit } from "./checkpoint/manifest.ts";
import { Disks } from "./disk/disks.ts";
import { GuestClient } from "./guest-link/guest-client.ts";
import { GuestJournals } from "./guest-link/guest-journal.ts";
import { GuestPages } from "./guest-link/guest-pages.ts";
import type {
  Belongings,
  CheckpointOptions,
  CreatedSandbox,
  CreateSandbox,
  Endpoint,
  Host,
  LogReader,
  ResumeSandbox,
  SandboxKind,
  Usage,
} from "./host.ts";
import { imageFolder } from "./image/image-folder.ts";
import { BOOTS_AT_ONCE_MAX, LIVENESS_CHECK_MS, RESTORES_AT_ONCE_MAX } from "./limits.ts";
import { Mounts } from "./mount/mounts.ts";
import { DnsRelay } from "./network/dns-relay.ts";
import { hostnameOfCopy } from "./network/hostname.ts";
import { Network } from "./network/network.ts";
import { CrunRuntime } from "./runtime/crun/crun-runtime.ts";
import type { Runtime } from "./runtime/runtime.ts";
import { boot, type Origin } from "./sandbox/booting.ts";
import { Checkpointing } from "./sandbox/checkpointing.ts";
import { Cleanup } from "./sandbox/cleanup.ts";
import { ReadyPool } from "./sandbox/ready-pool.ts";
import { restoreSandbox } from "./sandbox/restoring.ts";
import { newSandboxId } from "./sandbox/sandbox-id.ts";
import { isAlive, readRecord, type SandboxRecord, writeRecord } from "./sandbox/sandbox-record.ts";
import { UsageMeter } from "./sandbox/usage.ts";
import type { DataFolder } from "./system/data-folder.ts";
import { Toolbox } from "./system/toolbox.ts";

export interface MachineOptions {
  data: DataFolder;
  cacheFolder: string;
  /** What is mounted into every sandbox. */
  guestFolder: string;
  /** Name server to ask instead of the machine's own. */
  resolver: string | undefined;
  /** How many booted sandboxes to keep ready for each kind; 0 boots each on demand. */
  readyPerKind: number;
}

interface Running {
  record: SandboxRecord;
  guest: GuestClient;
}

export class Machine implements Host {
  readonly #running = new Map<string, Running>();
  readonly #turns = new OneAtATimeByKey();
  readonly #lostListeners: ((id: string) => void)[] = [];
  readonly #journals = new GuestJournals();
  readonly #meter = new UsageMeter();
  readonly #boots = new Gate(BOOTS_AT_ONCE_MAX);
  readonly #restores = new Gate(RESTORES_AT_ONCE_MAX);
  readonly #checkpointing: Checkpointing;
  readonly #clearing: Cleanup;
  readonly #parts;
  readonly #pool: ReadyPool;
  readonly #liveness: Timer;

  private constructor(
    readonly options: MachineOptions,
    readonly runtime: Runtime,
    readonly network: Network,
    readonly disks: Disks,
    readonly mounts: Mounts,
    readonly dns: DnsRelay,
    readonly checkpoints: Checkpoints,
  ) {
    const { data } = options;
    this.#parts = { runtime, network, disks, mounts, processors: new Processors(), pages: new GuestPages(mounts) };
    this.#clearing = new Cleanup({ data, runtime, network, disks, checkpoints });
    this.#checkpointing = new Checkpointing({ data, network, disks, runtime, checkpoints });
    this.#pool = new ReadyPool(
      options.readyPerKind,
      (kind) => this.#boot(kind),
      (kind) => this.#bootAhead(kind),
      (id) => this.destroy(id),
      (id) => this.#running.has(id),
    );
    this.#liveness = setInterval(() => this.#findLost(), LIVENESS_CHECK_MS);
    this.#liveness.unref();
  }

  /** The caller holds the data folder's lock and runs inside the mount namespace. */
  static async open(options: MachineOptions): Promise<Machine> {
    const toolbox = new Toolbox(options.cacheFolder);
    const mounts = new Mounts();
    const disks = await Disks.open(options.data.path, mounts);
    const network = new Network(options.data);
    for (const record of await recordsOf(options.data)) {
      if (isAlive(record)) network.adopt(record.slot, record.offline);
    }
    await network.open();
    const dns = await DnsRelay.open(network.gateway, options.resolver);
    const runtime = await CrunRuntime.open(toolbox, options.data);
    const checkpoints = new Checkpoints(disks.checkpointsFolder);
    return new Machine(options, runtime, network, disks, mounts, dns, checkpoints);
  }

  async create(request: CreateSandbox): Promise<CreatedSandbox> {
    this.#demandImage(request.kind);
    const id = request.checkpoint === undefined ? await this.#pool.take(request.kind) : newSandboxId();
    try {
      if (request.checkpoint !== undefined) {
        await this.#bring({ ...request, id, checkpoint: request.checkpoint, memory: true }, true);
      }
      await this.#handOver(id, request);
      this.#journals.follow(id, this.#demandRunning(id).guest, true);
    } catch (cause) {
      await this.destroy(id);
      throw cause;
    }
    return { id };
  }

  async pause(id: string, name: string, options: CheckpointOptions): Promise<void> {
    await this.#turns.run(id, async () => {
      const running = this.#demandRunning(id);
      this.#running.delete(id);
      this.#journals.leave(id);
      try {
        writeRecord(this.#folderOf(id), { ...running.record, pausingInto: name });
        await this.#checkpointing.write(running.record, name, options, "stays frozen");
      } catch (cause) {
        this.#running.set(id, running);
        this.#journals.follow(id, running.guest);
        writeRecord(this.#folderOf(id), running.record);
        throw cause;
      }
      // From here on the checkpoint is the sandbox. What cannot be cleared away now is cleared by the next resume or start.
      await killFrozen(running.record.cgroup)
        .then(() => this.#clearing.unmake(id, running.record.slot, running.record.disk))
        .catch((error) => complain("what is left of a paused sandbox could not be removed", error, id));
    });
  }

  async resume(request: ResumeSandbox): Promise<void> {
    const { id } = request;
    await this.#turns.run(id, async () => {
      this.#demandImage(request.kind);
      if (this.#running.has(id)) throw new Fault(409, `sandbox ${id} runs already`);
      if (existsSync(this.#folderOf(id))) await this.#clearing.unmakeById(id);
      try {
        await this.#bring(request, false);
        await this.#handOver(id, request);
        this.#journals.follow(id, this.#demandRunning(id).guest);
      } catch (cause) {
        this.#running.delete(id);
        await this.#clearing.unmakeById(id);
        throw cause;
      }
    });
  }

  async snapshot(id: string, name: string, options: CheckpointOptions): Promise<void> {
    await this.#turns.run(id, async () => {
      const { record, guest } = this.#demandRunning(id);
      // Our own connection to it would only have to be closed in every copy.
      this.#journals.leave(id);
      try {
        await this.#checkpointing.write(record, name, options, "goes on");
      } finally {
        if (this.#running.has(id)) this.#journals.follow(id, guest);
      }
    });
  }

  async removeCheckpoint(name: string): Promise<void> {
    await this.checkpoints.remove(name);
  }

  async destroy(id: string): Promise<void> {
    // At once, not when its turn has come.
    const record = this.#running.get(id)?.record;
    this.#running.delete(id);
    this.#journals.leaveSoon(id);
    await this.#turns.run(id, async () => {
      this.#running.delete(id);
      if (record === undefined) await this.#clearing.unmakeById(id);
      else await this.#clearing.unmake(id, record.slot, record.disk);
    });
  }

  endpoint(id: string): Endpoint | undefined {
    const running = this.#running.get(id);
    if (running === undefined) return undefined;
    return { address: running.guest.address, forward: (port) => running.guest.forward(port) };
  }

  async adopt(keep: Belongings): Promise<Belongings> {
    const { data } = this.options;
    await this.runtime.recover();
    const kept = new Map<string, SandboxRecord>();
    for (const record of await recordsOf(data)) {
      if (!keep.sandboxes.has(record.id) || !isAlive(record) || this.#isInCheckpoint(record)) continue;
      // A checkpoint that a killed server had begun is nobody's; whoever is in it goes on.
      await this.runtime.untilWritten(record.id);
      thaw(record.cgroup);
      kept.set(record.id, record);
      const guest = this.#guestOf(record);
      this.#running.set(record.id, { record, guest });
      this.#journals.follow(record.id, guest);
      this.#parts.pages
        .hold(record.guestFolder)
        .catch((error) => complain("an earlier guest is not held in memory", error, record.id));
    }
    for (const id of this.#running.keys()) if (!kept.has(id)) this.#running.delete(id);
    await this.#clearing.reap(kept);
    const checkpoints = await this.#clearing.reapCheckpoints(keep.checkpoints);
    return { sandboxes: new Set(kept.keys()), checkpoints };
  }

  onLost(listener: (id: string) => void): void {
    this.#lostListeners.push(listener);
  }

  onLog(reader: LogReader): void {
    this.#journals.tell(reader);
  }

  measure(ids: readonly string[]): Promise<ReadonlyMap<string, Usage>> {
    const records = ids.flatMap((id) => this.#running.get(id)?.record ?? []);
    return this.#meter.readAll(records.filter(isAlive));
  }

  keepReady(kinds: readonly SandboxKind[]): void {
    this.#pool.keep(kinds);
  }

  async close(): Promise<void> {
    clearInterval(this.#liveness);
    this.#journals.close();
    await this.#pool.close();
    await this.#turns.settled();
    this.network.close();
    this.dns.close();
    this.mounts.close();
  }

  /** A sandbox of this kind that runs and belongs to nobody yet. */
  async #boot(kind: SandboxKind): Promise<string> {
    const id = newSandboxId();
    await this.#bootAs(id, kind, undefined, false);
    return id;
  }

  async #bootAs(id: string, kind: SandboxKind, origin: Origin | undefined, offline: boolean): Promise<void> {
    using _place = await this.#boots.enter();
    const { processors, pages, ...parts } = this.#parts;
    this.#enter(await boot({ ...this.#places(id, kind), ...parts, processors, pages, id, kind, origin, offline }));
  }

  /** The first command of a guest takes longest; one that nobody waits for goes first. */
  async #bootAhead(kind: SandboxKind): Promise<string> {
    const id = await this.#boot(kind);
    // It is as good a sandbox without; under load a rehearsal may take too long.
    await this.#running
      .get(id)
      ?.guest.rehearse(kind.defaultUser)
      .catch(() => undefined);
    return id;
  }

  /** What is in a checkpoint runs, under the id that is asked for. */
  async #bring(request: ResumeSandbox, copy: boolean): Promise<void> {
    const { folder, manifest } = this.checkpoints.read(request.checkpoint);
    const { id, kind } = request;
    const offline = !request.internet;
    const { memory } = manifest;
    const hostname = copy ? hostnameOfCopy(id) : manifest.hostname;
    if (!request.memory || memory === undefined)
      return await this.#bootAs(id, kind, { disk: folder, hostname, copy }, offline);
    demandFit(memory, this.runtime);
    await this.checkpoints.demandIntact(request.checkpoint, folder, memory.files);
    await this.#parts.pages.hold(memory.guestFolder);
    using _place = await this.#restores.enter();
    const parts = { ...this.#places(id, kind), ...this.#parts };
    this.#enter(await restoreSandbox({ ...parts, id, kind, checkpoint: folder, memory, offline, hostname, copy }));
  }

  /** What the making of a sandbox needs to know of this machine. */
  #places(id: string, kind: SandboxKind) {
    const { data, cacheFolder, guestFolder } = this.options;
    return {
      folder: this.#folderOf(id),
      cgroup: `${data.cgroup}/${id}`,
      imageFolder: imageFolder(cacheFolder, kind.image),
      guestFolder,
      guestOf: (record: SandboxRecord) => this.#guestOf(record),
      unmake: (slot: number, disk: string) => this.#clearing.unmake(id, slot, disk),
    };
  }

  #enter(record: SandboxRecord): void {
    this.#running.set(record.id, { record, guest: this.#guestOf(record) });
  }

  /** Makes a booted sandbox the caller's: its walls first, then its settings. */
  async #handOver(id: string, request: CreateSandbox): Promise<void> {
    const running = this.#running.get(id);
    if (running === undefined) throw new Fault(500, `sandbox ${id} ended before it was handed over`);
    if (!request.internet && !running.record.offline) {
      running.record.offline = true;
      writeRecord(this.#folderOf(id), running.record);
      await this.network.cutOff(running.record.slot);
    }
    await running.guest.configure({
      sandboxId: id,
      templateId: request.kind.templateId,
      envVars: request.envVars,
      accessTokens: request.accessTokens,
      defaultUser: request.kind.defaultUser,
      defaultWorkdir: request.kind.defaultWorkdir,
    });
  }

  #findLost(): void {
    for (const [id, { record }] of this.#running) {
      if (isAlive(record)) continue;
      this.destroy(id).catch((error) => complain("a lost sandbox could not be removed", error, id));
      for (const listener of this.#lostListeners) listener(id);
    }
  }

  #isInCheckpoint({ pausingInto }: SandboxRecord): boolean {
    return pausingInto !== undefined && this.checkpoints.has(pausingInto);
  }

  #demandRunning(id: string): Running {
    const running = this.#running.get(id);
    if (running === undefined) throw new Fault(404, `sandbox ${id} does not run on this machine`);
    return running;
  }

  #demandImage(kind: SandboxKind): void {
    if (existsSync(imageFolder(this.options.cacheFolder, kind.image))) return;
    throw new Fault(404, `the image "${kind.image}" is not on this machine`);
  }

  #guestOf(record: SandboxRecord): GuestClient {
    const settingsFile = join(this.#folderOf(record.id), "settings.json");
    return new GuestClient(this.network.address(record.slot), record.controlSecret, settingsFile);
  }

  #folderOf(id: string): string {
    return join(this.options.data.sandboxesFolder, id);
  }
}

async function recordsOf(data: DataFolder): Promise<SandboxRecord[]> {
  const names = await readdir(data.sandboxesFolder);
  return names.flatMap((name) => readRecord(join(data.sandboxesFolder, name)) ?? []);
}

function complain(event: string, error: unknown, sandbox: string): void {
  stderrLog.write({ level: "error", event, sandbox, error: described(error) });
}
