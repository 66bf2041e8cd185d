/**
 * The life of a sandbox, as one state machine.
 *
 *   from      trigger                              to        act                        then
 *   (none)    create                               running   host.create before         row, expiry armed
 *   running   kill, end reached, lost by the host  killing   host.destroy               row removed
 *   running   set timeout, refresh, connect        running   —                          new end, expiry armed
 *   killing   start after a crash, retry           (none)    host.destroy               row removed
 *
 * The order is always: decide, act, record. To decide is one compare-and-set on (id, state, execution id); only who won it
 * acts. Create has no row to decide on, so it acts first and undoes the act when the row cannot be written.
 * From `endAt` on a sandbox is over for every reader, also in the few milliseconds before its row says so.
 */
import { Fault } from "../contract/fault.ts";
import type { CreatedSandbox, CreateSandbox, Host } from "../host/host.ts";
import type { Team } from "../store/people.ts";
import type { Sandbox, SandboxRun } from "../store/sandboxes.ts";
import type { Store } from "../store/store.ts";
import { Background } from "./background.ts";
import type { Clock } from "./clock.ts";
import { createExpiry, type Expiry } from "./expiry.ts";
import type { Ids } from "./ids.ts";
import { described, type Log } from "./log.ts";
import { createTakedown, type Takedown } from "./takedown.ts";
import { kindOf, type StartableTemplate } from "./template-look-up.ts";

export interface Wish {
  timeoutSeconds: number;
  metadata: Record<string, string>;
  envVars: Record<string, string>;
  secure: boolean;
  allowInternetAccess: boolean | null;
  mcp: Record<string, unknown> | null;
}

export interface LifecycleRooms {
  store: Store;
  host: Host;
  clock: Clock;
  ids: Ids;
  log: Log;
}

export class Lifecycle {
  readonly #rooms: LifecycleRooms;
  readonly #background: Background;
  readonly #expiry: Expiry;
  readonly #takedown: Takedown;
  /** Ids whose rows are `running`, so that the edge need not ask the store for every request. */
  readonly #running = new Set<string>();

  constructor(rooms: LifecycleRooms) {
    this.#rooms = rooms;
    this.#background = new Background(rooms.log);
    const shared = { ...rooms, background: this.#background };
    this.#takedown = createTakedown(shared);
    this.#expiry = createExpiry({ ...shared, onTaken: (runs) => this.#takeDown(runs) });
    rooms.host.onLost((id) => this.#background.run("loss of a sandbox not recorded", () => this.#lost(id)));
  }

  /** Takes back what ran before a restart. Nothing else may be called before it is done. */
  async start(): Promise<void> {
    const { store, host } = this.#rooms;
    const running = await store.sandboxes.inState("running");
    const interrupted = await store.sandboxes.inState("killing");
    const alive = await host.adopt(new Set(running.map((run) => run.id)));
    for (const run of running) {
      if (alive.has(run.id)) this.#running.add(run.id);
      else if (await store.sandboxes.changeState(run, "running", "killing")) interrupted.push(run);
    }
    this.#takedown.enqueue(interrupted);
    const next = await store.sandboxes.earliestEnd();
    if (next !== undefined) this.#expiry.noteEnd(next);
  }

  async create(team: Team, from: StartableTemplate, wish: Wish): Promise<Sandbox> {
    const { host, clock, ids, log } = this.#rooms;
    const createdAt = clock.now();
    const tokens = wish.secure ? [ids.runtimeToken()] : [];
    const { id } = await this.#place({
      kind: kindOf(from.template),
      envVars: wish.envVars,
      accessTokens: tokens,
      internet: wish.allowInternetAccess !== false,
    });
    // The expiry clock starts when the sandbox is up, however long that took.
    const startedAt = clock.now();
    const sandbox: Sandbox = {
      id,
      teamId: team.id,
      templateId: from.template.id,
      buildId: from.build.id,
      alias: from.alias,
      state: "running",
      executionId: ids.uuid(),
      createdAt,
      startedAt,
      endAt: startedAt + wish.timeoutSeconds * 1000,
      metadata: wish.metadata,
      envVars: wish.envVars,
      secure: wish.secure,
      tokens,
      allowInternetAccess: wish.allowInternetAccess,
      mcp: wish.mcp,
      cpuCount: from.template.cpuCount,
      memoryMB: from.template.memoryMB,
      diskSizeMB: from.template.diskSizeMB,
    };
    await this.#record(sandbox);
    // Lost before there was a row to say so: the host has told us in vain.
    if (host.endpoint(id) === undefined && (await this.#end(sandbox))) {
      throw new Fault(503, "Failed to place sandbox: it ended while it was started; try again");
    }
    log.write({ level: "info", event: "sandbox created", sandbox: id, team: team.slug, template: from.template.id });
    return sandbox;
  }

  /** The team's sandbox while it can be used, or a Fault 404. */
  async read(team: Team, id: string): Promise<Sandbox> {
    const sandbox = await this.#row(team, id);
    if (!this.#isRunning(sandbox)) throw notFound(id);
    return sandbox;
  }

  async setEnd(team: Team, id: string, seconds: number): Promise<Sandbox> {
    return this.#changeEnd(team, id, (run, now) => this.#rooms.store.sandboxes.setEnd(run, now + seconds * 1000, now));
  }

  /** As `setEnd`, but never to an earlier time. */
  async extendEnd(team: Team, id: string, seconds: number): Promise<Sandbox> {
    return this.#changeEnd(team, id, (run, now) =>
      this.#rooms.store.sandboxes.extendEnd(run, now + seconds * 1000, now),
    );
  }

  /** Returns when the sandbox is gone, or when somebody else is already ending it. */
  async kill(team: Team, id: string): Promise<void> {
    const sandbox = await this.#row(team, id);
    if (sandbox.state === "running") await this.#end(sandbox);
  }

  /** Never waits and never asks the store. */
  mayBeReached(id: string): boolean {
    return this.#running.has(id);
  }

  /** Resolves once no background work is under way. */
  settled(): Promise<void> {
    return this.#background.settled();
  }

  /** Stops the timers and waits for what is under way. Sandboxes run on. */
  async close(): Promise<void> {
    this.#expiry.close();
    this.#takedown.close();
    await this.#background.settled();
  }

  async #place(request: CreateSandbox): Promise<CreatedSandbox> {
    try {
      return await this.#rooms.host.create(request);
    } catch (cause) {
      // Clients look for the phrase at the beginning; and a missing image must not read as a missing template.
      const fault = Fault.from(cause);
      const headers = { ...fault.headers };
      if (fault.status === 503 || fault.status === 404) {
        const errorCode = fault.status === 404 ? "sandbox_no_compatible_node" : "sandbox_capacity_unavailable";
        throw new Fault(503, `Failed to place sandbox: ${fault.message}`, { cause, errorCode, headers });
      }
      // What a tool of the machine said is for the operator, not for a tenant.
      throw new Fault(500, "Failed to place sandbox: it could not be started; the server's log has the details", {
        cause,
        errorCode: "sandbox_create_failed",
        headers,
      });
    }
  }

  async #record(sandbox: Sandbox): Promise<void> {
    const { store, host, log } = this.#rooms;
    // Before the row, so that an expiry that comes between the two finds it to take out.
    this.#running.add(sandbox.id);
    try {
      await store.transaction(async (tables) => {
        await tables.sandboxes.add(sandbox);
        await tables.templates.noteSpawn(sandbox.templateId, sandbox.startedAt);
      });
    } catch (error) {
      this.#running.delete(sandbox.id);
      await host.destroy(sandbox.id).catch((second: unknown) => {
        const event = "sandbox without a row could not be destroyed; the next start removes it";
        log.write({ level: "error", event, sandbox: sandbox.id, error: described(second) });
      });
      throw error;
    }
    this.#expiry.noteEnd(sandbox.endAt);
  }

  async #changeEnd(
    team: Team,
    id: string,
    change: (run: SandboxRun, now: number) => Promise<Sandbox | undefined>,
  ): Promise<Sandbox> {
    const sandbox = await this.#row(team, id);
    const changed = this.#isRunning(sandbox) ? await change(sandbox, this.#rooms.clock.now()) : undefined;
    if (changed === undefined) throw new Fault(409, `sandbox "${id}" is being ended; create another one`);
    this.#expiry.noteEnd(changed.endAt);
    return changed;
  }

  /** True: this call ended it. */
  async #end(run: SandboxRun): Promise<boolean> {
    if (!(await this.#rooms.store.sandboxes.changeState(run, "running", "killing"))) return false;
    this.#running.delete(run.id);
    await this.#takedown.finish({ id: run.id, executionId: run.executionId });
    return true;
  }

  async #lost(id: string): Promise<void> {
    const { store, log } = this.#rooms;
    const sandbox = await store.sandboxes.byId(id);
    if (sandbox === undefined || sandbox.state !== "running") return;
    log.write({ level: "warn", event: "sandbox lost", sandbox: id });
    await this.#end(sandbox);
  }

  #takeDown(runs: SandboxRun[]): void {
    for (const run of runs) this.#running.delete(run.id);
    this.#takedown.enqueue(runs);
  }

  async #row(team: Team, id: string): Promise<Sandbox> {
    const sandbox = await this.#rooms.store.sandboxes.byId(id);
    // Somebody else's sandbox is as unknown as none.
    if (sandbox === undefined || sandbox.teamId !== team.id) throw notFound(id);
    return sandbox;
  }

  #isRunning(sandbox: Sandbox): boolean {
    return sandbox.state === "running" && sandbox.endAt > this.#rooms.clock.now();
  }
}

function notFound(id: string): Fault {
  return new Fault(404, `sandbox "${id}" does not exist, or it has ended`);
}
