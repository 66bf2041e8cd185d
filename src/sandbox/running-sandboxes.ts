/**
 * The sandboxes that run on this machine, a client for each guest, and one listener for their events. Sandboxes of the
 * ready pool are included, but have no owner; events about them start with `announce`.
 */
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import type { HostEvent, Reachable } from "../contract/internal/host.ts";
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import { GuestClient } from "./guest-link/guest-client.ts";
import { CONTROL_SECRET_NAME } from "./mounted-files.ts";
import type { Network } from "./network/network.ts";
import { isAlive, type SandboxRecord, writeRecord } from "./sandbox-record.ts";

export interface RunningSandbox {
  record: SandboxRecord;
  guest: GuestClient;
  isAnnounced: boolean;
  /** Set while a booted sandbox waits in the ready pool: its guest watches for settings in a file. */
  ahead?: { showsProcesses: boolean };
}

export class RunningSandboxes {
  readonly #entries = new Map<string, RunningSandbox>();
  #listener: ((event: HostEvent) => void) | undefined;

  /** `folder` holds the folders of all sandboxes. */
  constructor(
    private readonly folder: string,
    private readonly network: Pick<Network, "address">,
  ) {}

  listen(listener: (event: HostEvent) => void): void {
    this.#listener = listener;
    const announced = [...this.#entries].filter(([, { isAnnounced }]) => isAnnounced);
    listener({ kind: "inventory", reachable: announced.map(([id, running]) => reachable(id, running)) });
  }

  emit(event: HostEvent): void {
    this.#listener?.(event);
  }

  /** Reports trouble of the sandbox with this address, if there is one. */
  emitTrouble(address: string, message: string): void {
    for (const { id, slot } of this.records()) {
      if (this.network.address(slot) === address) this.emit({ kind: "trouble", id, message });
    }
  }

  /** The sandbox with this address, if it is reachable for its owner. */
  announcedAt(address: string): string | undefined {
    for (const [id, { record, isAnnounced }] of this.#entries) {
      if (isAnnounced && this.network.address(record.slot) === address) return id;
    }
    return undefined;
  }

  add(record: SandboxRecord): RunningSandbox {
    const running = { record, guest: this.guestOf(record), isAnnounced: false };
    this.#entries.set(record.id, running);
    return running;
  }

  /** Makes the sandbox reachable for its owner. */
  announce(id: string): RunningSandbox {
    const running = this.require(id);
    running.isAnnounced = true;
    this.emit({ kind: "reachable", ...reachable(id, running) });
    return running;
  }

  /** Makes the sandbox unreachable. Undefined: it was not running. */
  hide(id: string): RunningSandbox | undefined {
    const running = this.#entries.get(id);
    this.#entries.delete(id);
    if (running?.isAnnounced) this.emit({ kind: "unreachable", id });
    return running;
  }

  get(id: string): RunningSandbox | undefined {
    return this.#entries.get(id);
  }

  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /** Throws Fault 404 when the sandbox does not run. */
  require(id: string): RunningSandbox {
    const running = this.#entries.get(id);
    if (running === undefined) throw new Fault(404, `sandbox ${id} does not run on this machine`);
    return running;
  }

  keepOnly(ids: { has(id: string): boolean }): void {
    for (const id of [...this.#entries.keys()]) if (!ids.has(id)) this.hide(id);
  }

  /** Whether the sandbox is known and its first process is running now. */
  isAlive(id: string): boolean {
    const running = this.#entries.get(id);
    return running !== undefined && isAlive(running.record);
  }

  alive(ids: readonly string[]): SandboxRecord[] {
    return ids.flatMap((id) => (this.isAlive(id) ? (this.#entries.get(id)?.record ?? []) : []));
  }

  /** Iterates lazily: sandboxes that stop during the iteration are skipped. */
  *records(): Iterable<SandboxRecord> {
    for (const { record } of this.#entries.values()) yield record;
  }

  /** Sandboxes whose first process has ended. */
  lost(): RunningSandbox[] {
    return [...this.#entries.values()].filter(({ record }) => !isAlive(record));
  }

  folderOf(id: string): string {
    return join(this.folder, id);
  }

  /** Saves the record for the next server. */
  saveRecord(record: SandboxRecord): void {
    writeRecord(this.folderOf(record.id), record);
  }

  guestOf(record: SandboxRecord): GuestClient {
    const folder = this.folderOf(record.id);
    const files = { settings: join(folder, "settings.json"), shown: join(folder, CONTROL_SECRET_NAME) };
    return new GuestClient(this.network.address(record.slot), record.controlSecret, files);
  }
}

function reachable(id: string, { guest }: RunningSandbox): Reachable {
  return { id, endpoint: { host: guest.address, runtimePort: RUNTIME_PORT, ownPorts: true } };
}
