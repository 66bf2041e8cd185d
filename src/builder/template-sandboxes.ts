/**
 * Creates sandboxes of templates with the processes of their start command. These come from the checkpoint's memory.
 * Without a checkpoint, or if its memory does not fit this host, the sandbox boots and the command runs again.
 */
import { Fault } from "../contract/fault.ts";
import type { CreatedSandbox, CreateSandbox, SandboxKind, StartCommand } from "../contract/internal/host.ts";
import type { Origin } from "../sandbox/booting.ts";
import { isRestricted } from "../sandbox/network/private-egress.ts";
import type { RunningSandboxes } from "../sandbox/running-sandboxes.ts";
import { newSandboxId } from "../sandbox/sandbox-id.ts";
import type { SandboxRecord } from "../sandbox/sandbox-record.ts";
import type { Starting } from "../sandbox/starting.ts";
import { silentOutput } from "./build-log.ts";
import { BuildSandbox, type SandboxSource } from "./build-sandbox.ts";
import { type ReadyBounds, startUntilReady } from "./start-command.ts";

/** The ready pool. */
export interface TemplatePool {
  /** Returns a matching sandbox that is ready or about to be, otherwise the result of `make`. */
  serve(
    wanted: { kind: SandboxKind; checkpoint: string | null; owner?: string | undefined },
    make: () => Promise<string>,
  ): Promise<string>;
  /** Runs work that a client waits for and that the pool cannot serve. */
  during<Result>(work: () => Promise<Result>): Promise<Result>;
}

interface TemplateSandboxesParts {
  starting: Starting;
  running: RunningSandboxes;
  pool: TemplatePool;
  destroy(id: string): Promise<void>;
  bounds: ReadyBounds;
}

export class TemplateSandboxes implements SandboxSource {
  readonly #parts: TemplateSandboxesParts;

  constructor(parts: TemplateSandboxesParts) {
    this.#parts = parts;
  }

  async boot(request: CreateSandbox, origin?: Origin): Promise<string> {
    return await this.#handedOver(request, () => this.#parts.starting.boot(request.kind, origin));
  }

  /** Returns a sandbox that belongs to the caller and is not listed yet, or throws and leaves nothing. */
  async create(request: CreateSandbox): Promise<CreatedSandbox> {
    const { checkpoint, start, volumes = [] } = request;
    // A mount cannot be added to restored memory, so the start command runs again.
    const isMounted = start !== undefined && volumes.length > 0;
    if (checkpoint === undefined || isMounted) return { id: await this.#fresh(request) };
    try {
      return { id: await this.#restored({ ...request, checkpoint }) };
    } catch (cause) {
      const mismatch = start === undefined ? undefined : mismatchOf(cause);
      if (mismatch === undefined) throw cause;
      return { id: await this.#fresh(request), mismatch };
    }
  }

  async renew(id: string): Promise<void> {
    const { running } = this.#parts;
    await running.demand(id).guest.renew(() => running.isAlive(id));
  }

  recordOf(id: string): SandboxRecord {
    return this.#parts.running.demand(id).record;
  }

  addressOf(id: string): string {
    return this.#parts.running.demand(id).guest.address;
  }

  async destroy(id: string): Promise<void> {
    await this.#parts.destroy(id);
  }

  async #fresh(request: CreateSandbox): Promise<string> {
    const { start, kind, owner, volumes = [] } = request;
    const { pool, starting } = this.#parts;
    // Sandboxes of the ready pool have no volumes.
    const isPlain = volumes.length === 0;
    const take = (boot: () => Promise<string>) =>
      isPlain ? pool.serve({ kind, checkpoint: null, owner }, boot) : pool.during(boot);
    if (start !== undefined) {
      const taken = () => take(() => starting.boot(kind, undefined, volumes));
      return await this.#handedOver(request, () => this.#started(request, start, taken));
    }
    let isHandedOver = false;
    const id = await take(async () => {
      const booted = await starting.bootFor(request);
      isHandedOver = true;
      return booted;
    });
    return isHandedOver ? id : await this.#handedOver(request, async () => id);
  }

  async #restored(request: CreateSandbox & { checkpoint: string }): Promise<string> {
    const { kind, checkpoint, owner, egress, volumes = [] } = request;
    const { pool, starting } = this.#parts;
    let isHandedOver = false;
    const restore = async () => {
      const id = newSandboxId();
      try {
        await starting.fromCheckpoint({ ...request, id, memory: true }, true);
      } catch (cause) {
        await this.#parts.destroy(id);
        throw cause;
      }
      isHandedOver = true;
      return id;
    };
    // Processes of a ready sandbox may already have open connections, which a restricted policy would not close.
    if (isRestricted(egress) || volumes.length > 0) return await pool.during(restore);
    const id = await pool.serve({ kind, checkpoint, owner }, restore);
    return isHandedOver ? id : await this.#handedOver(request, async () => id);
  }

  /** Runs the start command before clients can reach the sandbox. */
  async #started(request: CreateSandbox, start: StartCommand, take: () => Promise<string>): Promise<string> {
    const { kind, envVars } = request;
    const over = new AbortController();
    const opened = (own: CreateSandbox) => this.#handedOver(own, take);
    const sandbox = await BuildSandbox.of(this, opened, request, over.signal);
    try {
      const context = { user: kind.defaultUser, home: "", workdir: kind.defaultWorkdir, envVars };
      await startUntilReady(sandbox, { start, context, output: silentOutput(), bounds: this.#parts.bounds });
      return sandbox.id;
    } catch (cause) {
      await this.#parts.destroy(sandbox.id);
      throw new Fault(422, `the template's start command did not become ready: ${Fault.from(cause).message}`, {
        cause,
      });
    }
  }

  async #handedOver(request: CreateSandbox, make: () => Promise<string>): Promise<string> {
    const id = await make();
    try {
      await this.#parts.starting.handOver(id, request);
      return id;
    } catch (cause) {
      await this.#parts.destroy(id);
      throw cause;
    }
  }
}

/** Why a checkpoint cannot run here; undefined: the failure has another cause. */
function mismatchOf(cause: unknown): string | undefined {
  // 500: the checkpoint seemed to fit, but the restore failed.
  return cause instanceof Fault && [404, 422, 500].includes(cause.status) ? cause.message : undefined;
}
