/**
 * A host that only remembers: for tests of the rooms above it, which need the host's promises but no machine. It is held to
 * the same contract tests as the real one.
 */
import { Fault } from "../contract/fault.ts";
import type { CreatedSandbox, CreateSandbox, Endpoint, Host, SandboxKind } from "./host.ts";

const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";

export class MemoryHost implements Host {
  readonly #running = new Map<string, CreateSandbox>();
  readonly #listeners: ((id: string) => void)[] = [];
  readonly #images: ReadonlySet<string>;
  readonly #capacity: number;
  #starting = 0;
  #made = 0;

  /** Awaited before each create and destroy; a test that wants one to be slow, or to fail, replaces it. */
  beforeCreate: (request: CreateSandbox) => Promise<void> = async () => undefined;
  beforeDestroy: (id: string) => Promise<void> = async () => undefined;
  /** Every id given to `destroy`, in order. */
  readonly destroyed: string[] = [];
  kept: readonly SandboxKind[] = [];

  constructor(options: { images?: readonly string[]; capacity?: number } = {}) {
    this.#images = new Set(options.images ?? ["base"]);
    this.#capacity = options.capacity ?? Number.POSITIVE_INFINITY;
  }

  async create(request: CreateSandbox): Promise<CreatedSandbox> {
    if (!this.#images.has(request.kind.image)) {
      throw new Fault(404, `the image "${request.kind.image}" is not on this machine`);
    }
    if (this.#running.size + this.#starting >= this.#capacity)
      throw new Fault(503, "this machine has no room for another sandbox");
    this.#starting++;
    try {
      await this.beforeCreate(request);
      const id = this.#nextId();
      this.#running.set(id, request);
      return { id };
    } finally {
      this.#starting--;
    }
  }

  async destroy(id: string): Promise<void> {
    this.destroyed.push(id);
    this.#running.delete(id);
    await this.beforeDestroy(id);
  }

  endpoint(id: string): Endpoint | undefined {
    return this.#running.has(id) ? { address: "127.0.0.1", forward: async () => undefined } : undefined;
  }

  async adopt(ids: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    for (const id of this.#running.keys()) if (!ids.has(id)) this.#running.delete(id);
    return new Set(this.#running.keys());
  }

  onLost(listener: (id: string) => void): void {
    this.#listeners.push(listener);
  }

  keepReady(kinds: readonly SandboxKind[]): void {
    this.kept = kinds;
  }

  async close(): Promise<void> {
    this.kept = [];
  }

  /** The ids of what runs, in the order of creation. */
  get running(): string[] {
    return [...this.#running.keys()];
  }

  /** What a running sandbox was created with. */
  requestOf(id: string): CreateSandbox | undefined {
    return this.#running.get(id);
  }

  /** The sandbox's first process dies. */
  lose(id: string): void {
    if (!this.#running.delete(id)) throw new Error(`${id} does not run`);
    for (const listener of this.#listeners) listener(id);
  }

  /** Counted, not random, so that a test replays; scattered, so that order by id is not order by time. */
  #nextId(): string {
    let number = (++this.#made * 2_654_435_761) % 2 ** 32;
    let id = "";
    while (id.length < 20) {
      id += ALPHABET[number % ALPHABET.length];
      number = (number * 69_069 + 1) % 2 ** 32;
    }
    return `i${id}`;
  }
}
