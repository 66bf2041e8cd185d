/** Writes the log of one build to the store, in order. Entries beyond the limit are dropped, and the log says so. */
import { SerialQueue } from "../../base/serial-queue.ts";
import type { BuildLogEntry } from "../../contract/internal/host.ts";
import type { Store } from "../../store/store.ts";

/** Space beyond the limit for the line that reports it. */
const NOTICE_BYTES = 1024;

export class StoredBuildLog {
  readonly #turns = new SerialQueue();
  #pending: BuildLogEntry[] = [];
  #receivedBytes = 0;
  /** The last entry. */
  last: BuildLogEntry | undefined;
  #isFull = false;

  constructor(
    private readonly store: Store,
    private readonly buildId: string,
    private readonly maxBytes: number,
  ) {}

  /** At most one whole log waits for the store. */
  add(entries: readonly BuildLogEntry[]): void {
    this.last = entries.at(-1) ?? this.last;
    for (const entry of entries) {
      if (this.#receivedBytes > this.maxBytes) return;
      this.#receivedBytes += Buffer.byteLength(entry.message);
      this.#pending.push(entry);
    }
    // Entries that could not be written wait for the next ones; `flushed` throws if the write still fails.
    void this.#turns.run(() => this.#write()).catch(() => undefined);
  }

  /** Resolves once all entries are stored. Throws the store's error. */
  async flushed(): Promise<void> {
    await this.#turns.run(() => this.#write());
  }

  async #write(): Promise<void> {
    if (this.#isFull) this.#pending = [];
    if (this.#pending.length === 0) return;
    const entries = this.#pending;
    this.#pending = [];
    try {
      await this.#append(entries);
    } catch (error) {
      this.#pending = [...entries, ...this.#pending];
      throw error;
    }
  }

  async #append(entries: readonly BuildLogEntry[]): Promise<void> {
    await this.store.transaction(async ({ buildLogs }) => {
      const taken = await buildLogs.append(this.buildId, entries, this.maxBytes);
      const next = entries[taken];
      if (next === undefined) return;
      const message = `the log of a build has at most ${this.maxBytes} bytes; what follows is left out`;
      const notice: BuildLogEntry = { at: next.at, level: "warn", message, step: next.step };
      await buildLogs.append(this.buildId, [notice], this.maxBytes + NOTICE_BYTES);
      this.#isFull = true;
    }, "server");
  }
}
