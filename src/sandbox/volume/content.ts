/** Serves the content of volumes with one process per volume in use, which ends when idle. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { KeyedQueue } from "../../base/serial-queue.ts";
import { onStreamEnd } from "../../base/stream-end.ts";
import { Fault } from "../../contract/fault.ts";
import type {
  EntryAttributes,
  EntryOptions,
  VolumeContent,
  VolumeEntry,
} from "../../contract/internal/volume-content.ts";
import { overloaded } from "../../system/overload.ts";
import { bundleProgram } from "../../system/unprivileged-process.ts";
import { ContentProcess } from "./content-process.ts";
import type { Volumes } from "./volume-disks.ts";

/** Concurrent calls to one process; a further one is rejected and can be retried. */
const CONTENT_CALLS_MAX = 32;
/** Processes that serve volume content: the maximum running at once, and how long an idle one stays. */
const CONTENT_PROCESSES_MAX = 64;
const CONTENT_IDLE_MS = 20_000;

const PROGRAM = join(import.meta.dir, "program/main.ts");

interface Worker {
  process: ContentProcess;
  calls: number;
  lastUsed: number;
  idle: Timer | undefined;
}

export class VolumeContentProcesses implements VolumeContent {
  readonly #workers = new Map<string, Worker>();
  readonly #turns = new KeyedQueue();
  #program: Promise<string> | undefined;
  #starting = 0;

  /** `folder` is for the program and the sockets. The mapped root of a volume must be able to pass through it. */
  constructor(
    private readonly volumes: Volumes,
    private readonly folder: string,
  ) {
    mkdirSync(folder, { recursive: true, mode: 0o711 });
  }

  stat(volume: string, path: string): Promise<VolumeEntry> {
    return this.#ask(volume, "stat", { path });
  }

  list(volume: string, path: string, depth: number): Promise<VolumeEntry[]> {
    return this.#ask(volume, "list", { path, depth });
  }

  makeFolder(volume: string, path: string, options: EntryOptions): Promise<VolumeEntry> {
    return this.#ask(volume, "make-folder", { path, options });
  }

  change(volume: string, path: string, changes: EntryAttributes): Promise<VolumeEntry> {
    return this.#ask(volume, "change", { path, changes });
  }

  async remove(volume: string, path: string): Promise<void> {
    await this.#ask(volume, "remove", { path });
  }

  /** The sizes of these entries; null for a missing one. */
  sizes(volume: string, paths: readonly string[]): Promise<(number | null)[]> {
    return this.#ask(volume, "sizes", {}, new Response(JSON.stringify(paths)).body);
  }

  async read(volume: string, path: string): Promise<{ bytes: number; content: ReadableStream<Uint8Array> }> {
    const call = await this.#enter(volume);
    try {
      const response = await call.process.ask("read", { path });
      if (response.body === null) throw new Fault(500, "the content of a volume answered without a body");
      return { bytes: Number(response.headers.get("x-bytes")), content: onStreamEnd(response.body, call.leave) };
    } catch (cause) {
      call.leave();
      throw cause;
    }
  }

  write(
    volume: string,
    path: string,
    options: EntryOptions,
    content: ReadableStream<Uint8Array> | null,
  ): Promise<VolumeEntry> {
    return this.#ask(volume, "write", { path, options }, content);
  }

  async end(volume: string): Promise<void> {
    await this.#turns.run(volume, async () => {
      const worker = this.#workers.get(volume);
      this.#workers.delete(volume);
      clearTimeout(worker?.idle);
      await worker?.process.end();
    });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#workers.keys()].map((volume) => this.end(volume)));
  }

  async #ask<Answer>(
    volume: string,
    operation: string,
    about: Record<string, unknown>,
    body: ReadableStream<Uint8Array> | null = null,
  ): Promise<Answer> {
    const call = await this.#enter(volume);
    try {
      return (await (await call.process.ask(operation, about, body)).json()) as Answer;
    } finally {
      call.leave();
    }
  }

  async #enter(volume: string): Promise<{ process: ContentProcess; leave(): void }> {
    const worker = await this.#turns.run(volume, async () => {
      const known = this.#workers.get(volume);
      const found = known?.process.isAlive ? known : await this.#start(volume);
      this.#workers.set(volume, found);
      if (found.calls === CONTENT_CALLS_MAX)
        throw overloaded(`${CONTENT_CALLS_MAX} calls to this volume are under way`);
      // Counted within the turn; otherwise the process could be ended as idle right after it.
      found.calls++;
      clearTimeout(found.idle);
      return found;
    });
    const call = new DisposableStack();
    call.defer(() => {
      worker.calls--;
      worker.lastUsed = performance.now();
      if (worker.calls > 0) return;
      clearTimeout(worker.idle);
      worker.idle = setTimeout(() => void this.#endIdle(volume, worker), CONTENT_IDLE_MS);
      worker.idle.unref();
    });
    return { process: worker.process, leave: () => call.dispose() };
  }

  async #start(volume: string): Promise<Worker> {
    await this.#makeRoom();
    this.#starting++;
    try {
      const program = await this.#bundled();
      const held = await this.volumes.hold(volume);
      const process = await ContentProcess.start(held, join(this.folder, volume), program);
      return { process, calls: 0, lastUsed: performance.now(), idle: undefined };
    } finally {
      this.#starting--;
    }
  }

  /** Ends the longest idle process when there are too many. */
  async #makeRoom(): Promise<void> {
    if (this.#workers.size + this.#starting < CONTENT_PROCESSES_MAX) return;
    const idle = [...this.#workers].filter(([, { calls }]) => calls === 0);
    const [oldest] = idle.sort(([, one], [, other]) => one.lastUsed - other.lastUsed);
    if (oldest === undefined) throw overloaded(`the content of ${CONTENT_PROCESSES_MAX} volumes is being worked on`);
    this.#workers.delete(oldest[0]);
    clearTimeout(oldest[1].idle);
    await oldest[1].process.end();
  }

  async #endIdle(volume: string, worker: Worker): Promise<void> {
    await this.#turns.run(volume, async () => {
      if (worker.calls > 0) return;
      if (this.#workers.get(volume) === worker) this.#workers.delete(volume);
      await worker.process.end();
    });
  }

  async #bundled(): Promise<string> {
    // No volume has a name that begins with a dot.
    this.#program ??= bundleProgram(PROGRAM, this.folder, ".content");
    this.#program.catch(() => {
      this.#program = undefined;
    });
    return await this.#program;
  }
}
