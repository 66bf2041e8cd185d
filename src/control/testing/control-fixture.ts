/** A complete control for tests: a real SQLite file, a fake host, a clock that the test moves, deterministic ids. */
import { expect } from "bun:test";
import { rm } from "node:fs/promises";
import type { z } from "zod";
import { jsonLog } from "../../base/log.ts";
import { ManualClock } from "../../base/testing/manual-clock.ts";
import { untilTrue } from "../../base/testing/until.ts";
import type { Blobs } from "../../blobs/blobs.ts";
import { blobsIn } from "../../blobs/testing/blobs-in.ts";
import type { Fault } from "../../contract/fault.ts";
import type { Host } from "../../contract/internal/host.ts";
import type { MachineReadings } from "../../contract/management/admin.ts";
import { errorBody } from "../../contract/management/error-body.ts";
import type { CreatedSandbox, ListedSandbox, SandboxDetail } from "../../contract/management/sandbox.ts";
import type { Snapshot } from "../../contract/management/snapshot.ts";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { emptyVolumes } from "../../host/testing/fake-volume-content.ts";
import { serialised } from "../../host/testing/serialised-host.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import { openStore, type Store } from "../../store/store.ts";
import { newDatabaseFolder } from "../../store/testing/database-folder.ts";
import { migratedFile } from "../../store/testing/migrated-file.ts";
import { createApiKey } from "../access/keys.ts";
import type { BuildLimits } from "../builds/build-limits.ts";
import { type Control, createControl } from "../control.ts";
import { type BuiltinTemplate, ensureFirstRun, type FirstRun } from "../first-run.ts";
import { createIds, type FillRandom, type Ids } from "../ids.ts";
import type { LifecycleListener } from "../lifecycle/lifecycle-listener.ts";
import type { MemoryBound } from "../lifecycle/promised-memory.ts";
import type { OidcSettings } from "../login/oidc-login.ts";
import { routes } from "../routes/routes.ts";
import type { BuiltinDefinition } from "../templates/builtin-definition.ts";
import type { Message } from "../webhooks/webhook-post.ts";
import { type FollowedRoute, FollowedRoutes } from "./followed-routes.ts";
import { MemoryKeySource } from "./memory-key-source.ts";

const PASSING_STEP_MS = 500;
/** A request is read, looked up and decided within a handful of turns of the event loop. */
const IDLE_TURNS = 50;
export const NOW = Date.parse("2027-01-15T08:00:00Z");

export const BUILTINS_READY = 2;
/** Budgets do not refill while a test's clock stands still, so they are large. Tests of budgets set those of a team. */
const requestRates = { reads: 1e6, changes: 1e6, files: 1e6 };

export const baseTemplate: BuiltinTemplate = {
  id: "basetemplate00000000",
  buildId: "5a4d1075-ba5e-4000-8000-000000000001",
  alias: "base",
  image: "base",
  cpuCount: 2,
  memoryMB: 1024,
  diskSizeMB: 10_240,
  defaultUser: "user",
  defaultWorkdir: "/home/user",
};

const machine: MachineReadings = {
  version: "0.0.0",
  metrics: {
    cpuPercent: 3,
    cpuCount: 2,
    memoryUsedBytes: 1,
    memoryTotalBytes: 2,
    disks: [{ mountPoint: "/", device: "vda", filesystemType: "ext4", usedBytes: 1, totalBytes: 2 }],
  },
  machineInfo: { cpuFamily: "6", cpuModel: "85", cpuModelName: "a processor", cpuArchitecture: "x86_64" },
};

/** A body as the test expects it. `call` has already checked it against the schema of its route. */
type ReplyBody = CreatedSandbox & SandboxDetail & ListedSandbox[] & Snapshot & z.infer<typeof errorBody>;

export interface Reply {
  status: number;
  body: ReplyBody;
  headers: Headers;
}

export class ControlFixture implements AsyncDisposable {
  readonly clock = new ManualClock(NOW);
  /** For background work: writing logs, sampling, delivering. It stands still unless a test advances it. */
  readonly idleClock = new ManualClock(NOW);
  /** Messages to webhooks, and the statuses of their receivers. */
  readonly posted: Message[] = [];
  receive: (message: Message) => Promise<number> = async () => 200;
  readonly ids: Ids = createIds(countedRandom());
  readonly logLines: string[] = [];
  /** Calls of the listener: the event, the sandbox and the note; `warn` for a warning. */
  readonly events: { event: string; sandbox: Sandbox; note: string | undefined }[] = [];
  /** Folder of the SQLite file. */
  readonly folder: string;
  readonly #database: string;
  readonly host: FakeHost;
  store!: Store;
  blobs!: Blobs;
  /** For the next start. */
  buildLimits: Partial<BuildLimits> = {};
  publicUrl: string | undefined;
  privateRanges: readonly string[] = [];
  memoryBound: MemoryBound | undefined;
  /** What the server uses in place of its store from the next start on. */
  storeAs: (store: Store) => Store = (store) => store;
  /** From the next start on. */
  oidc: OidcSettings | undefined;
  /** What lies where the key for secrets belongs. */
  readonly secretsKey = new MemoryKeySource();
  /** Keys of metadata that become claims, from the next start on. */
  identityMetadata: readonly string[] = [];
  /** Built-in templates from the next start on. */
  definitions: readonly BuiltinDefinition[] = [];
  /** Templates that replace images, by image name. */
  readonly templatesOf = new Map<string, string>();
  control!: Control;
  services!: Parameters<typeof createControl>[0];
  routes!: FollowedRoutes;
  firstRun!: FirstRun;
  apiKey!: string;

  private constructor(folder: string, database: string, host: FakeHost) {
    this.folder = folder;
    this.#database = database;
    this.host = host;
  }

  /** Uses its own SQLite file unless a database is given. */
  static async open(host = new FakeHost(), database?: string): Promise<ControlFixture> {
    const folder = await newDatabaseFolder("sandlot-control-");
    const fixture = new ControlFixture(folder, database ?? (await migratedFile(`${folder}/sandlot.db`)), host);
    await fixture.#boot();
    fixture.apiKey = fixture.firstRun.firstApiKey ?? "";
    return fixture;
  }

  /** As after a crash of the server: the machine and the database stay, everything else is new. */
  async restart(builtins?: readonly BuiltinTemplate[]): Promise<void> {
    await this.control.close();
    await this.store.close();
    await this.#boot(builtins);
  }

  async #boot(builtins: readonly BuiltinTemplate[] = [baseTemplate]): Promise<void> {
    this.store = this.storeAs(await openStore(this.#database, this.clock.now()));
    const log = jsonLog(
      (line) => this.logLines.push(line),
      () => this.clock.now(),
    );
    this.firstRun = await ensureFirstRun(this, builtins, this.definitions);
    const { store, clock, ids, listener } = this;
    const host: Host = serialised(this.host);
    const post = (message: Message) => {
      this.posted.push(message);
      return this.receive(message);
    };
    const activity = { idleClock: this.idleClock, post, listener };
    const builtinsReady = BUILTINS_READY;
    this.blobs = await blobsIn(`${this.folder}-blobs`, clock);
    const { blobs, buildLimits: builds, privateRanges } = this;
    const volumeContent = emptyVolumes;
    const linkSecret = new Uint8Array(32);
    this.services = {
      store,
      host,
      blobs,
      clock,
      ids,
      log,
      activity,
      builtinsReady,
      definitions: this.definitions,
      builds,
      requestRates,
      privateRanges,
      memoryBound: this.memoryBound,
      machine: async () => machine,
      templateOf: (image: string) => this.templatesOf.get(image),
      linkSecret,
      volumeContent,
      oidc: this.oidc,
      secretsKey: this.secretsKey,
      identityMetadata: this.identityMetadata,
      publicUrl: this.publicUrl,
    };
    this.control = createControl(this.services);
    this.routes = new FollowedRoutes(this.control.directory);
    await this.control.start();
  }

  /** The route that the edge would find. */
  find(id: string): FollowedRoute | undefined {
    return this.routes.find(id);
  }

  readonly listener: LifecycleListener = {
    onEvent: (event, sandbox, note) => void this.events.push({ event, sandbox, note }),
    warn: (sandbox, note) => void this.events.push({ event: "warn", sandbox, note }),
  };

  /** The events of one sandbox, in order. */
  eventsOf(id: string): string[] {
    return this.events.filter(({ sandbox }) => sandbox.id === id).map(({ event }) => event);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.control.close();
    await this.store.close();
    for (const each of [this.folder, `${this.folder}-blobs`]) await rm(each, { recursive: true, force: true });
  }

  /** Sends one request and checks the response against the route table. */
  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    const sent: RequestInit = { method, headers: { "X-API-Key": this.apiKey, ...headers } };
    if (body !== undefined) sent.body = typeof body === "string" ? body : JSON.stringify(body);
    const response = await this.control.handle(new Request(`http://localhost${path}`, sent));
    const text = await response.text();
    const reply: Reply = {
      status: response.status,
      body: text === "" ? undefined : JSON.parse(text),
      headers: response.headers,
    };
    expectPromised(method, path, reply);
    return reply;
  }

  async create(body: Record<string, unknown> = {}): Promise<string> {
    const reply = await this.call("POST", "/sandboxes", { templateID: "base", timeout: 60, ...body });
    expect(reply.status).toBe(201);
    return reply.body.sandboxID;
  }

  async endOf(id: string): Promise<number> {
    const reply = await this.call("GET", `/sandboxes/${id}`);
    expect(reply.status).toBe(200);
    return (Date.parse(reply.body.endAt) - NOW) / 1000;
  }

  advance(byMs: number): Promise<void> {
    return this.clock.advance(byMs, () => this.control.settled());
  }

  /** Advances both clocks. */
  async passBy(byMs: number): Promise<void> {
    for (let left = byMs; left > 0; left -= PASSING_STEP_MS) {
      const step = Math.min(left, PASSING_STEP_MS);
      await this.advance(step);
      await this.idleClock.advance(step, () => this.control.settled());
      await this.control.settled();
    }
  }

  /** From now on the host's acts of this kind wait until `finish`, and then fail if a failure is given. */
  hold(
    act: "beforePause" | "beforeResume" | "beforeSnapshot",
    failure?: Fault,
  ): { begun: Promise<void>; finish(): void } {
    const begun = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    this.host[act] = async () => {
      begun.resolve();
      await held.promise;
      if (failure !== undefined) throw failure;
    };
    return { begun: begun.promise, finish: held.resolve };
  }

  /** Polls for a condition that no event announces. */
  async until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    await untilTrue(isSo);
  }

  /** Long enough for every request in progress to reach the point where it waits for something else. */
  async untilIdle(): Promise<void> {
    for (let turn = 0; turn < IDLE_TURNS; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  killWanted(id: string): Promise<void> {
    return this.until(async () => (await this.store.sandboxes.byId(id))?.killWanted === true);
  }

  /** The API key of a new team. */
  async anotherTeam(slug: string): Promise<string> {
    const id = this.ids.uuid();
    await this.store.people.addTeam({ id, name: slug, slug, limits: {}, createdAt: NOW });
    return (await createApiKey(this, { teamId: id, name: "other", createdBy: null })).secret;
  }
}

function expectPromised(method: string, path: string, { status, body, headers }: Reply): void {
  expect(headers.get("x-request-id")).toMatch(/^[0-9a-f]{16}$/);
  if (status >= 400) {
    expect(errorBody.parse(body)).toEqual(body);
    expect(body.code).toBe(status);
    return;
  }
  const segments = path.split("?")[0]?.split("/") ?? [];
  const route = routes.find(
    (route) =>
      route.method === method &&
      route.path.split("/").length === segments.length &&
      route.path.split("/").every((segment, at) => segment.startsWith("{") || segment === segments[at]),
  );
  const promise = route?.success.find((success) => success.status === status);
  expect(promise, `${method} ${path} does not promise a ${status}`).toBeDefined();
  if (promise?.schema === undefined) expect(body).toBeUndefined();
  else expect(promise.schema.parse(body)).toEqual(body);
}

/** The same bytes in every run of a test, without repetition within one. */
function countedRandom(): FillRandom {
  const random = seededRandom(1);
  return (bytes) => {
    for (let at = 0; at < bytes.length; at++) bytes[at] = random() * 256;
    return bytes;
  };
}

/** Replayable numbers from 0 to 1, excluding 1. */
export function seededRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
}
