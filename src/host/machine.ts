/**
 * The Host on this machine, put together from its parts. A sandbox is made in this order, and unmade in the reverse one:
 *
 *   slot → disk → bundle → runtime.create → veth → record → runtime.start → guest answers → mounts leave the host's view
 *
 * Every step can be undone without the ones after it, so a server that was killed anywhere in between leaves only what
 * `adopt` finds by name and removes.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import { BOOTS_AT_ONCE_MAX, LIVENESS_CHECK_MS } from "../contract/limits.ts";
import { cgroupLayout, removeCgroups } from "./cgroups.ts";
import { CRIU_CONFIG_FILE, criuConfig } from "./criu-config.ts";
import { Crun } from "./crun.ts";
import type { DataFolder } from "./data-folder.ts";
import { Disks } from "./disk.ts";
import { DnsRelay } from "./dns-relay.ts";
import { Gate } from "./gate.ts";
import { GuestClient } from "./guest-client.ts";
import type { CreatedSandbox, CreateSandbox, Endpoint, Host, SandboxKind } from "./host.ts";
import { Mounts } from "./mounts.ts";
import { Network } from "./network.ts";
import { ociSpec } from "./oci-spec.ts";
import { openFilesMax } from "./open-files.ts";
import { Processors } from "./processors.ts";
import { ReadyPool } from "./ready-pool.ts";
import type { Runtime } from "./runtime.ts";
import { isAlive, readRecord, type SandboxRecord, startTicks, writeRecord } from "./sandbox-record.ts";
import { imageFolder } from "./setup/base-image.ts";
import { Toolbox } from "./toolbox.ts";

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
  readonly #ending = new Map<string, Promise<void>>();
  readonly #lostListeners: ((id: string) => void)[] = [];
  readonly #processors = new Processors();
  readonly #boots = new Gate(BOOTS_AT_ONCE_MAX);
  readonly #pool: ReadyPool;
  readonly #liveness: Timer;

  private constructor(
    readonly options: MachineOptions,
    readonly runtime: Runtime,
    readonly network: Network,
    readonly disks: Disks,
    readonly mounts: Mounts,
    readonly dns: DnsRelay,
  ) {
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

  /** The caller holds the data folder's lock and runs inside the mount world. */
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
    writeFileSync(join(options.data.runFolder, CRIU_CONFIG_FILE), criuConfig(), { mode: 0o644 });
    const runtime = new Crun(toolbox, options.data.crunFolder);
    return new Machine(options, runtime, network, disks, mounts, dns);
  }

  async create(request: CreateSandbox): Promise<CreatedSandbox> {
    if (!existsSync(imageFolder(this.options.cacheFolder, request.kind.image))) {
      throw new Fault(404, `the image "${request.kind.image}" is not on this machine`);
    }
    const id = await this.#pool.take(request.kind);
    try {
      await this.#handOver(id, request);
    } catch (cause) {
      await this.destroy(id);
      throw cause;
    }
    return { id };
  }

  async destroy(id: string): Promise<void> {
    const ending = this.#ending.get(id);
    if (ending !== undefined) return await ending;
    const record = this.#running.get(id)?.record ?? readRecord(this.#folderOf(id));
    this.#running.delete(id);
    const end = this.#unmake(id, record?.slot, record?.disk).finally(() => this.#ending.delete(id));
    this.#ending.set(id, end);
    await end;
  }

  endpoint(id: string): Endpoint | undefined {
    const running = this.#running.get(id);
    if (running === undefined) return undefined;
    return { address: running.guest.address, forward: (port) => running.guest.forward(port) };
  }

  async adopt(ids: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const alive = new Set<string>();
    for (const record of await recordsOf(this.options.data)) {
      if (!ids.has(record.id) || !isAlive(record)) continue;
      alive.add(record.id);
      this.#running.set(record.id, { record, guest: this.#guestOf(record) });
    }
    await this.#reap(alive);
    return alive;
  }

  onLost(listener: (id: string) => void): void {
    this.#lostListeners.push(listener);
  }

  keepReady(kinds: readonly SandboxKind[]): void {
    this.#pool.keep(kinds);
  }

  async close(): Promise<void> {
    clearInterval(this.#liveness);
    await this.#pool.close();
    await Promise.allSettled(this.#ending.values());
    this.network.close();
    this.dns.close();
    this.mounts.close();
  }

  /** A sandbox of this kind that runs and belongs to nobody yet. */
  async #boot(kind: SandboxKind): Promise<string> {
    using _place = await this.#boots.enter();
    const id = newSandboxId();
    const folder = this.#folderOf(id);
    const slot = this.network.take();
    const diskName = Disks.newName();
    try {
      mkdirSync(folder, { mode: 0o711 });
      const image = imageFolder(this.options.cacheFolder, kind.image);
      const disk = await this.disks.attach(diskName, kind.diskSizeMB, image, folder);
      const controlSecret = randomHex(32);
      const spec = ociSpec({
        kind,
        rootFolder: disk.root,
        guestFolder: this.options.guestFolder,
        cgroupPath: `${this.options.data.cgroup}/${id}`,
        cgroupV1: cgroupLayout() !== "v2",
        processors: this.#processors.take(kind.cpuCount),
        controlSecret,
        criuConfig: join(this.options.data.runFolder, CRIU_CONFIG_FILE),
        openFilesMax: openFilesMax(),
      });
      writeFileSync(join(folder, "config.json"), JSON.stringify(spec), { mode: 0o600 });
      const pid = await this.runtime.create(id, folder);
      await this.network.plug(slot, pid);
      const pidStartTicks = startTicks(pid);
      if (pidStartTicks === undefined) throw new Fault(500, "the sandbox ended before it was started");
      const record: SandboxRecord = { id, slot, disk: diskName, pid, pidStartTicks, controlSecret, offline: false };
      writeRecord(folder, record);
      await this.runtime.start(id);
      const guest = this.#guestOf(record);
      await guest.ready(() => isAlive(record));
      await disk.release();
      this.#running.set(id, { record, guest });
      return id;
    } catch (cause) {
      await this.#unmake(id, slot, diskName);
      // No room is not a failure of ours; it says so itself.
      if (cause instanceof Fault && cause.status === 503) throw cause;
      throw new Fault(500, `sandbox ${id} could not be booted`, { cause });
    }
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

  /** Makes a booted sandbox the caller's: its walls first, then its settings. */
  async #handOver(id: string, request: CreateSandbox): Promise<void> {
    const running = this.#running.get(id);
    if (running === undefined) throw new Fault(500, `sandbox ${id} ended before it was handed over`);
    if (!request.internet) {
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

  /**
   * Removes all there may be of a sandbox, whatever step it was in. The slot comes last: once it is free it may be another's,
   * and the record, which would have it freed again, must be gone by then.
   */
  async #unmake(id: string, slot: number | undefined, disk: string | undefined): Promise<void> {
    const folder = this.#folderOf(id);
    await this.runtime.remove(id);
    await removeCgroups(`${this.options.data.cgroup}/${id}`);
    await this.disks.releaseMounts(folder);
    if (disk !== undefined) await this.disks.remove(disk);
    await rm(folder, { recursive: true, force: true });
    if (slot !== undefined) await this.network.free(slot);
  }

  /** Removes everything that carries this server's name and belongs to no sandbox in `keep`. */
  async #reap(keep: ReadonlySet<string>): Promise<void> {
    const { data } = this.options;
    const traces = new Set([...(await this.runtime.list()), ...(await readdir(data.sandboxesFolder))]);
    for (const id of traces) {
      if (keep.has(id)) continue;
      this.#running.delete(id);
      const record = readRecord(this.#folderOf(id));
      await this.#unmake(id, record?.slot, record?.disk);
    }
    const disks = new Set([...this.#running.values()].map(({ record }) => record.disk));
    for (const name of await this.disks.list()) if (!disks.has(name)) await this.disks.remove(name);
    await removeCgroups(data.cgroup, keep);
    await this.network.removeInterfaces(new Set([...this.#running.values()].map(({ record }) => record.slot)));
  }

  #findLost(): void {
    for (const [id, { record }] of this.#running) {
      if (isAlive(record)) continue;
      this.destroy(id).catch((error) => {
        console.error(
          JSON.stringify({ level: "error", message: `cannot clean up after ${id}`, reason: String(error) }),
        );
      });
      for (const listener of this.#lostListeners) listener(id);
    }
  }

  #guestOf(record: SandboxRecord): GuestClient {
    return new GuestClient(this.network.address(record.slot), record.controlSecret);
  }

  #folderOf(id: string): string {
    return join(this.options.data.sandboxesFolder, id);
  }
}

async function recordsOf(data: DataFolder): Promise<SandboxRecord[]> {
  const names = await readdir(data.sandboxesFolder);
  return names.flatMap((name) => readRecord(join(data.sandboxesFolder, name)) ?? []);
}

const ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH = 20;

function newSandboxId(): string {
  const bytes = crypto.getRandomValues(new Uint32Array(ID_LENGTH));
  return `i${[...bytes].map((value) => ID_LETTERS[value % ID_LETTERS.length]).join("")}`;
}

function randomHex(bytes: number): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex");
}
