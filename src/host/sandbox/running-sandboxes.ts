/** The sandboxes that run on this machine and can be reached: what is known of each, and the way to its guest. */
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { GuestClient } from "../guest-link/guest-client.ts";
import type { Network } from "../network/network.ts";
import { isAlive, type SandboxRecord, writeRecord } from "./sandbox-record.ts";

export interface RunningSandbox {
  record: SandboxRecord;
  guest: GuestClient;
}

export class RunningSandboxes {
  readonly #entries = new Map<string, RunningSandbox>();
  readonly #folder: string;
  readonly #network: Pick<Network, "address">;

  /** `folder` holds the folders of all sandboxes. */
  constructor(folder: string, network: Pick<Network, "address">) {
    this.#folder = folder;
    this.#network = network;
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

  add(record: SandboxRecord): RunningSandbox {
    const running = { record, guest: this.guestOf(record) };
    this.#entries.set(record.id, running);
    return running;
  }

  delete(id: string): void {
    this.#entries.delete(id);
  }

  keepOnly(ids: { has(id: string): boolean }): void {
    for (const id of this.#entries.keys()) if (!ids.has(id)) this.#entries.delete(id);
  }

  /** Whether it is known and its first process has not ended, as of this moment. */
  isAlive(id: string): boolean {
    const running = this.#entries.get(id);
    return running !== undefined && isAlive(running.record);
  }

  /** Those whose first process has ended. */
  lost(): string[] {
    return [...this.#entries.keys()].filter((id) => !this.isAlive(id));
  }

  folderOf(id: string): string {
    return join(this.#folder, id);
  }

  /** Writes down what is known of a sandbox, for the next server. */
  keep(record: SandboxRecord): void {
    writeRecord(this.folderOf(record.id), record);
  }

  guestOf(record: SandboxRecord): GuestClient {
    const settingsFile = join(this.folderOf(record.id), "settings.json");
    return new GuestClient(this.#network.address(record.slot), record.controlSecret, settingsFile);
  }
}
