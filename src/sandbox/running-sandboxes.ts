/**
 * The sandboxes that run on this machine, the way to the guest of each, and the one listener that is told of them. What
 * waits in the ready pool is among them, but is nobody's yet and not told of; from `announce` on it is.
 */
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import type { HostEvent, Reachable } from "../contract/internal/host.ts";
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import { FirstProcesses } from "./first-processes.ts";
import { GuestClient } from "./guest-link/guest-client.ts";
import type { Network } from "./network/network.ts";
import { CONTROL_SECRET_FILE } from "./own-files.ts";
import { type SandboxRecord, writeRecord } from "./sandbox-record.ts";

export interface RunningSandbox {
  record: SandboxRecord;
  guest: GuestClient;
  isTold: boolean;
  /** Booted by this server, and nobody's yet: its guest looks for the settings that it is shown. */
  ahead?: BootedAhead;
}

interface BootedAhead {
  showsProcesses: boolean;
  isStopped: boolean;
  /** Its processes when there were none but those of its guest, if that is known. */
  guest?: string;
}

export class RunningSandboxes {
  readonly #entries = new Map<string, RunningSandbox>();
  readonly #processes = new FirstProcesses();
  readonly #folder: string;
  readonly #network: Pick<Network, "address">;
  #listener: ((event: HostEvent) => void) | undefined;

  /** `folder` holds the folders of all sandboxes. */
  constructor(folder: string, network: Pick<Network, "address">) {
    this.#folder = folder;
    this.#network = network;
  }

  listen(listener: (event: HostEvent) => void): void {
    this.#listener = listener;
    const told = [...this.#entries].filter(([, { isTold }]) => isTold);
    listener({ kind: "inventory", reachable: told.map(([id, running]) => reachable(id, running)) });
  }

  tell(event: HostEvent): void {
    this.#listener?.(event);
  }

  /** Of the sandbox with this address, if there is one. */
  tellTrouble(address: string, message: string): void {
    for (const { id, slot } of this.records()) {
      if (this.#network.address(slot) === address) this.tell({ kind: "trouble", id, message });
    }
  }

  add(record: SandboxRecord): RunningSandbox {
    const running = { record, guest: this.guestOf(record), isTold: false };
    this.#entries.set(record.id, running);
    this.#processes.watch(record.id, record);
    return running;
  }

  /** From now on it can be reached by those whose it is. */
  announce(id: string): RunningSandbox {
    const running = this.demand(id);
    running.isTold = true;
    this.tell({ kind: "reachable", ...reachable(id, running) });
    return running;
  }

  /** From now on nobody reaches it. Undefined: it did not run. */
  takeOut(id: string): RunningSandbox | undefined {
    const running = this.#entries.get(id);
    this.#entries.delete(id);
    this.#processes.leave(id);
    if (running?.isTold) this.tell({ kind: "unreachable", id });
    return running;
  }

  get(id: string): RunningSandbox | undefined {
    return this.#entries.get(id);
  }

  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /** Fault 404 when it does not run. */
  demand(id: string): RunningSandbox {
    const running = this.#entries.get(id);
    if (running === undefined) throw new Fault(404, `sandbox ${id} does not run on this machine`);
    return running;
  }

  keepOnly(ids: { has(id: string): boolean }): void {
    for (const id of [...this.#entries.keys()]) if (!ids.has(id)) this.takeOut(id);
  }

  /** Whether it is known and its first process has not ended, as of this moment. */
  isAlive(id: string): boolean {
    return this.#entries.has(id) && this.#processes.isAlive(id);
  }

  /** Of these, the records of those that are. */
  alive(ids: readonly string[]): SandboxRecord[] {
    return ids.flatMap((id) => (this.isAlive(id) ? (this.#entries.get(id)?.record ?? []) : []));
  }

  /** One after the other, of those that run when it is their turn. */
  *records(): Iterable<SandboxRecord> {
    for (const { record } of this.#entries.values()) yield record;
  }

  /** Those whose first process has ended. */
  lost(): RunningSandbox[] {
    return this.#processes.ended().flatMap((id) => this.#entries.get(id) ?? []);
  }

  folderOf(id: string): string {
    return join(this.#folder, id);
  }

  /** Writes down what is known of a sandbox, for the next server. */
  keep(record: SandboxRecord): void {
    writeRecord(this.folderOf(record.id), record);
  }

  guestOf(record: SandboxRecord): GuestClient {
    const folder = this.folderOf(record.id);
    const files = { settings: join(folder, "settings.json"), shown: join(folder, CONTROL_SECRET_FILE) };
    return new GuestClient(this.#network.address(record.slot), record.controlSecret, files);
  }
}

function reachable(id: string, { guest }: RunningSandbox): Reachable {
  return { id, endpoint: { host: guest.address, runtimePort: RUNTIME_PORT, ownPorts: true } };
}
