/**
 * A host in memory, for tests of the modules above it, which need the host's contract but no machine. The same contract
 * tests apply to it as to the real one.
 */
import { Fault } from "../../contract/fault.ts";
import type {
  BuildLogEntry,
  BuildOutcome,
  BuildRequest,
  CheckpointOptions,
  CreatedSandbox,
  CreateSandbox,
  Egress,
  Host,
  HostEvent,
  Inventory,
  KeptReady,
  PrepareStart,
  Reachable,
  ResumeSandbox,
  RuleAnswer,
  StoredImages,
  Usage,
  VolumeMount,
} from "../../contract/internal/host.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import type { LogLine } from "../../contract/sandbox-log.ts";
import { builtAs, FakeImages } from "./fake-images.ts";
import { FakeNames } from "./fake-names.ts";
import { scatteredId } from "./random-sandbox-id.ts";

/** Values by which a test tells sandboxes apart: `boot` is only in memory, `disk` only in files. */
interface Contents {
  boot: number;
  disk: number;
}

interface Running extends Contents {
  request: CreateSandbox;
}

interface Checkpoint extends Contents {
  memory: boolean;
  volumes: readonly VolumeMount[];
}

export class FakeHost implements Host {
  readonly #running = new Map<string, Running>();
  readonly #checkpoints = new Map<string, Checkpoint>();
  /** Sandboxes that another call is working on, and checkpoints that are being written. */
  readonly #busy = new Map<string, string>();
  readonly #paused = new Set<string>();
  readonly #answers = new Map<string, PromiseWithResolvers<string | null | undefined>>();
  readonly #ruleAnswers = new Map<string, PromiseWithResolvers<RuleAnswer>>();
  readonly #builds = new Map<string, PromiseWithResolvers<BuildOutcome>>();
  readonly #capacity: number;
  #starting = 0;
  #made = 0;
  #boots = 0;
  #asked = 0;

  /** Awaited before each action; a test replaces one to make the action slow or fail. */
  beforeCreate: (request: CreateSandbox) => Promise<void> = async () => undefined;
  beforeDestroy: (id: string) => Promise<void> = async () => undefined;
  beforePause: (id: string, name: string, options: CheckpointOptions) => Promise<void> = async () => undefined;
  beforeResume: (request: ResumeSandbox) => Promise<void> = async () => undefined;
  beforeSnapshot: (id: string, name: string, options: CheckpointOptions) => Promise<void> = async () => undefined;
  beforeEgressHolds: (id: string, egress: Egress) => Promise<void> = async () => undefined;
  /** The outcome of a build that is not cancelled; by default its own image, without a checkpoint. */
  buildAs: (request: BuildRequest) => Promise<BuildOutcome> = async (request) => builtAs(request);
  /** Why the checkpoint of a create does not fit; only where a start command can run instead. */
  mismatchOf: (request: CreateSandbox) => string | undefined = () => undefined;
  beforePrepareStart: (request: PrepareStart) => Promise<void> = async () => undefined;
  beforeRemoveCheckpoint: (name: string) => Promise<void> = async () => undefined;
  beforeCreateVolume: (name: string) => Promise<void> = async () => undefined;
  beforeRemoveVolume: (name: string) => Promise<void> = async () => undefined;
  beforeRemoveLayers: (owner: string) => Promise<void> = async () => undefined;
  /** Sizes by name. */
  readonly volumes = new Map<string, number>();
  /** Owners of layers. */
  readonly layers = new Set<string>();
  /** Every id passed to `destroy`, in order. */
  readonly destroyed: string[] = [];
  /** Concurrent calls that the interface allows but a correct caller never makes, such as two pauses of one sandbox. */
  readonly collisions: string[] = [];
  kept: readonly KeptReady[] = [];
  keptImages: readonly string[] = [];
  readonly names = new FakeNames();
  readonly images: FakeImages;
  /** The listener for events. */
  listener: (event: HostEvent) => void = () => undefined;
  /** The reported usage of sandboxes; a test replaces it. */
  usageOf: (id: string) => Usage = () => ({ cpuUsedMs: 0, memUsed: 1, memCache: 2, diskUsed: 3, diskTotal: 4 });
  measured = 0;

  constructor(options: { images?: readonly string[]; capacity?: number } = {}) {
    this.images = new FakeImages(options.images ?? ["base"]);
    this.#capacity = options.capacity ?? Number.POSITIVE_INFINITY;
  }

  events(listener: (event: HostEvent) => void): void {
    this.listener = listener;
    const up = [...this.#running.keys()].filter((id) => !this.#paused.has(id));
    listener({ kind: "inventory", reachable: up.map(reachable) });
  }

  async create(request: CreateSandbox): Promise<CreatedSandbox> {
    this.images.demand(request.kind.image);
    return this.#withRoom(async () => {
      await this.beforeCreate(request);
      this.images.demand(request.kind.image);
      const mismatch = this.#mismatch(request);
      const { checkpoint } = request;
      const from = checkpoint === undefined || mismatch !== undefined ? undefined : this.#checkpoint(checkpoint);
      const id = scatteredId(++this.#made);
      this.#requireVolumes(from, request, true);
      this.#enter(id, { request, ...this.#contents(from, true) });
      const origin = from === undefined ? "boot" : "restore";
      return mismatch === undefined ? { id, origin } : { id, origin, mismatch };
    });
  }

  pause(id: string, name: string, options: CheckpointOptions): Promise<void> {
    return this.#write("pause", id, name, options, () => this.beforePause(id, name, options));
  }

  async resume(request: ResumeSandbox): Promise<void> {
    const { id, checkpoint, memory } = request;
    const from = this.#checkpoint(checkpoint);
    if (this.#running.has(id)) throw new Fault(409, `sandbox "${id}" is already running`);
    const release = this.#hold("resume", id);
    try {
      await this.#withRoom(async () => {
        await this.beforeResume(request);
        this.images.demand(request.kind.image);
        this.#checkpoint(checkpoint);
        this.#requireVolumes(from, request, memory);
        this.#enter(id, { request, ...this.#contents(from, memory) });
      });
    } finally {
      release();
    }
  }

  snapshot(id: string, name: string, options: CheckpointOptions): Promise<void> {
    return this.#write("snapshot", id, name, options, () => this.beforeSnapshot(id, name, options));
  }

  async removeCheckpoint(name: string): Promise<void> {
    await this.beforeRemoveCheckpoint(name);
    this.#checkpoints.delete(name);
  }

  async destroy(id: string): Promise<void> {
    this.destroyed.push(id);
    const inHand = this.#busy.get(id);
    if (inHand !== undefined) this.collisions.push(`destroy of ${id} during its ${inHand}`);
    this.#takeOut(id);
    await this.beforeDestroy(id);
  }

  async setEgress(id: string, egress: Egress): Promise<void> {
    const sandbox = this.#running.get(id);
    if (sandbox === undefined) throw doesNotRun(id);
    sandbox.request = { ...sandbox.request, egress };
    await this.beforeEgressHolds(id, egress);
    if (this.#running.get(id) !== sandbox) throw doesNotRun(id);
  }

  async answerRule(question: string, answer: RuleAnswer): Promise<void> {
    this.#ruleAnswers.get(question)?.resolve(answer);
    this.#ruleAnswers.delete(question);
  }

  lookUp: Host["lookUp"] = async (...args) => this.names.lookUp(...args);

  async forward(): Promise<number | undefined> {
    return undefined;
  }

  async adopt(keep: Inventory): Promise<Inventory> {
    for (const id of [...this.#running.keys()]) if (!keep.sandboxes.includes(id)) this.#takeOut(id);
    for (const name of this.#checkpoints.keys()) if (!keep.checkpoints.includes(name)) this.#checkpoints.delete(name);
    for (const id of this.#running.keys()) this.listener({ kind: "reachable", ...reachable(id) });
    return { sandboxes: [...this.#running.keys()], checkpoints: [...this.#checkpoints.keys()] };
  }

  async requestLog(id: string, after: string | null): Promise<void> {
    this.#answers.get(id)?.resolve(after);
  }

  async deferLog(id: string): Promise<void> {
    this.#answers.get(id)?.resolve(undefined);
  }

  async measure(ids: readonly string[]): Promise<Record<string, Usage>> {
    this.measured++;
    return Object.fromEntries(ids.filter((id) => this.#running.has(id)).map((id) => [id, this.usageOf(id)]));
  }

  async processorTimes(ids: readonly string[]): Promise<Record<string, number>> {
    const running = ids.filter((id) => this.#running.has(id));
    return Object.fromEntries(running.map((id) => [id, this.usageOf(id).cpuUsedMs]));
  }

  async build(request: BuildRequest): Promise<BuildOutcome> {
    const ending = Promise.withResolvers<BuildOutcome>();
    this.#builds.set(request.id, ending);
    try {
      const outcome = await Promise.race([ending.promise, this.buildAs(request)]);
      if (request.steps.length > 0) this.layers.add(request.owner);
      if (!outcome.isReady) return outcome;
      this.images.add(outcome.image);
      if (outcome.checkpoint !== null) this.#addCheckpoint(outcome.checkpoint);
      return outcome;
    } finally {
      this.#builds.delete(request.id);
    }
  }

  async cancelBuild(id: string, reason: string): Promise<void> {
    this.#builds.get(id)?.resolve({ isReady: false, step: "base", message: reason });
  }

  async prepareStart(request: PrepareStart): Promise<void> {
    await this.beforePrepareStart(request);
    this.#addCheckpoint(request.name);
  }

  async collectImages(keep: readonly string[]): Promise<StoredImages> {
    this.keptImages = keep;
    const running = [...this.#running.values()].map(({ request }) => request.kind.image);
    this.images.collect(keep, running);
    return { images: this.images.names.map((name) => ({ name, bytes: 1 })), layerBytes: this.layers.size };
  }

  async removeLayers(owner: string): Promise<void> {
    await this.beforeRemoveLayers(owner);
    this.layers.delete(owner);
  }

  async createVolume(name: string, sizeMB: number): Promise<void> {
    await this.beforeCreateVolume(name);
    this.volumes.set(name, sizeMB);
  }

  async removeVolume(name: string): Promise<void> {
    await this.beforeRemoveVolume(name);
    this.volumes.delete(name);
  }

  async keepReady(kept: readonly KeptReady[]): Promise<void> {
    this.kept = kept;
  }

  async close(): Promise<void> {
    this.kept = [];
  }

  /** Ids of running builds. */
  get building(): string[] {
    return [...this.#builds.keys()];
  }

  /** Emits log entries of a build. */
  logBuild(id: string, entries: readonly BuildLogEntry[]): void {
    this.listener({ kind: "build-log", id, entries });
  }

  /** Ids of running sandboxes, in order of creation. */
  get running(): string[] {
    return [...this.#running.keys()];
  }

  get checkpoints(): string[] {
    return [...this.#checkpoints.keys()];
  }

  /** The request that a running sandbox was created or resumed with. */
  requestOf(id: string): CreateSandbox | undefined {
    return this.#running.get(id)?.request;
  }

  contentsOf(id: string): Contents | undefined {
    const running = this.#running.get(id);
    return running && { boot: running.boot, disk: running.disk };
  }

  /** Simulates the death of the sandbox's first process. */
  lose(id: string): void {
    if (!this.#takeOut(id)) throw new Error(`${id} does not run`);
    this.listener({ kind: "lost", id, reason: "its first process ended" });
  }

  /** Asks for the log position as a host does before it follows a guest; undefined when the listener defers. */
  askLog(id: string): Promise<string | null | undefined> {
    return this.#tell({ kind: "log-waits", id });
  }

  /** Asks for the headers of a request as a host does. */
  requestRule(id: string, pattern: string, host: string): Promise<RuleAnswer> {
    const question = String(++this.#asked);
    const answer = Promise.withResolvers<RuleAnswer>();
    this.#ruleAnswers.set(question, answer);
    this.listener({ kind: "rule-requested", question, id, pattern, host });
    return answer.promise;
  }

  /** Emits lines of a guest. Returns whether they were accepted; until then a host emits no more of that log. */
  async say(
    id: string,
    lines: readonly LogLine[],
    position: string | null,
    listener = this.listener,
  ): Promise<boolean> {
    return (await this.#tell({ kind: "log", id, lines, position }, listener)) === position;
  }

  async #tell(event: HostEvent & { id: string }, listener = this.listener): Promise<string | null | undefined> {
    const answer = Promise.withResolvers<string | null | undefined>();
    this.#answers.set(event.id, answer);
    listener(event);
    return await answer.promise;
  }

  #addCheckpoint(name: string): void {
    const fresh = ++this.#boots;
    this.#checkpoints.set(name, { memory: true, boot: fresh, disk: fresh, volumes: [] });
  }

  #enter(id: string, running: Running): void {
    this.#running.set(id, running);
    this.listener({ kind: "reachable", ...reachable(id) });
  }

  #takeOut(id: string): boolean {
    const wasThere = this.#running.delete(id);
    if (wasThere && !this.#paused.has(id)) this.listener({ kind: "unreachable", id });
    return wasThere;
  }

  async #write(
    act: "pause" | "snapshot",
    id: string,
    name: string,
    { memory }: CheckpointOptions,
    before: () => Promise<void>,
  ): Promise<void> {
    if (!this.#running.has(id)) throw doesNotRun(id);
    if (this.#checkpoints.has(name) || this.#busy.has(name)) throw new Fault(409, `there is a checkpoint "${name}"`);
    const release = this.#hold(act, id);
    this.#busy.set(name, act);
    if (act === "pause") {
      this.listener({ kind: "unreachable", id });
      this.#paused.add(id);
    }
    try {
      await before();
      const running = this.#running.get(id);
      if (running === undefined) throw doesNotRun(id);
      const { boot, disk, request } = running;
      this.#checkpoints.set(name, { memory, boot, disk, volumes: request.volumes ?? [] });
      if (act === "pause") this.#running.delete(id);
    } finally {
      this.#busy.delete(name);
      const isBack = this.#paused.delete(id) && this.#running.has(id);
      if (isBack) this.listener({ kind: "reachable", ...reachable(id) });
      release();
    }
  }

  #hold(act: string, id: string): () => void {
    const inHand = this.#busy.get(id);
    if (inHand !== undefined) this.collisions.push(`${act} of ${id} during its ${inHand}`);
    this.#busy.set(id, act);
    return () => this.#busy.delete(id);
  }

  async #withRoom<T>(start: () => Promise<T>): Promise<T> {
    if (this.#running.size + this.#starting >= this.#capacity)
      throw new Fault(503, "this machine has no room for another sandbox");
    this.#starting++;
    try {
      return await start();
    } finally {
      this.#starting--;
    }
  }

  #mismatch(request: CreateSandbox): string | undefined {
    const { checkpoint, start } = request;
    if (checkpoint === undefined || start === undefined) return undefined;
    return this.mismatchOf(request) ?? (this.#checkpoints.has(checkpoint) ? undefined : "there is no such checkpoint");
  }

  #checkpoint(name: string): Checkpoint {
    const found = this.#checkpoints.get(name);
    if (found === undefined) throw new Fault(404, `there is no checkpoint "${name}" on this machine`);
    return found;
  }

  #requireVolumes(from: Checkpoint | undefined, { volumes = [], start }: CreateSandbox, memory: boolean): void {
    const missing = volumes.find(({ volume }) => !this.volumes.has(volume));
    if (missing !== undefined) throw new Fault(422, `there is no volume "${missing.volume}" on this machine`);
    const isInMemory = from?.memory === true && memory && start === undefined;
    if (isInMemory && !Bun.deepEquals(from.volumes, volumes)) throw new Fault(422, "the memory has other volumes");
  }

  #contents(from: Checkpoint | undefined, memory: boolean): Contents {
    const fresh = ++this.#boots;
    if (from === undefined) return { boot: fresh, disk: fresh };
    return { boot: from.memory && memory ? from.boot : fresh, disk: from.disk };
  }
}

function reachable(id: string): Reachable {
  return { id, endpoint: { host: "127.0.0.1", runtimePort: RUNTIME_PORT, ownPorts: true } };
}

function doesNotRun(id: string): Fault {
  return new Fault(404, `sandbox "${id}" does not run on this machine`);
}
