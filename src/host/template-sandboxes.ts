/**
 * Creates sandboxes of templates, one step after the other:
 *
 *   take one from the ready pool, or boot or restore one → start command → hand over
 *
 * The processes of a start command come from the checkpoint's memory. Without a checkpoint, or if its memory does not
 * fit this host, the sandbox boots and the command runs again.
 *
 * Admission: control decides whether a create is allowed before it calls the host. The host rejects one only if it
 * cannot make the sandbox. docs/architecture.md lists all these places in their order.
 */
import { BuildSandbox, newToken, type SandboxSource } from "../builder/build-sandbox.ts";
import { silentOutput } from "../builder/command-output.ts";
import { type ReadyBounds, startUntilReady } from "../builder/start-command.ts";
import { Fault } from "../contract/fault.ts";
import { newSandboxId } from "../contract/ids.ts";
import type { CreatedSandbox, CreateSandbox, StartCommand } from "../contract/internal/host.ts";
import type { DiskOrigin } from "../sandbox/booting.ts";
import { isRestricted } from "../sandbox/network/private-egress.ts";
import type { ReadyPool } from "../sandbox/pool/ready-pool.ts";
import type { RunningSandboxes } from "../sandbox/running-sandboxes.ts";
import type { Starting } from "../sandbox/starting.ts";

interface TemplateSandboxesParts {
  starting: Starting;
  running: RunningSandboxes;
  pool: Pick<ReadyPool, "take" | "trackClientStart">;
  destroy(id: string): Promise<void>;
  bounds: ReadyBounds;
}

export class TemplateSandboxes implements SandboxSource {
  readonly running: RunningSandboxes;

  constructor(private readonly parts: TemplateSandboxesParts) {
    this.running = parts.running;
  }

  async boot(request: CreateSandbox, origin?: DiskOrigin): Promise<string> {
    return await this.parts.starting.bootFor(request, origin);
  }

  /** Returns a sandbox that belongs to the caller and is not listed yet, or throws and leaves nothing. */
  async create(request: CreateSandbox): Promise<CreatedSandbox> {
    const { checkpoint, start, volumes = [] } = request;
    // A mount cannot be added to restored memory, so the start command runs again.
    const isMounted = start !== undefined && volumes.length > 0;
    if (checkpoint === undefined || isMounted) return await this.#fresh(request);
    try {
      return await this.#restored({ ...request, checkpoint });
    } catch (cause) {
      const mismatch = start === undefined ? undefined : mismatchOf(cause);
      if (mismatch === undefined) throw cause;
      return { ...(await this.#fresh(request)), mismatch };
    }
  }

  async destroy(id: string): Promise<void> {
    await this.parts.destroy(id);
  }

  async #fresh(request: CreateSandbox): Promise<CreatedSandbox> {
    const { start } = request;
    return start === undefined ? await this.#booted(request) : await this.#started(request, start);
  }

  async #booted(request: CreateSandbox): Promise<CreatedSandbox> {
    const { kind, owner, volumes = [] } = request;
    const { pool, starting } = this.parts;
    // Sandboxes of the ready pool have no volumes.
    const ready = volumes.length === 0 ? await pool.take({ kind, checkpoint: null, owner }) : undefined;
    if (ready !== undefined) return await this.#handedOver({ id: ready, origin: "ready" }, request);
    using _start = pool.trackClientStart();
    return { id: await starting.bootFor(request), origin: "boot" };
  }

  async #restored(request: CreateSandbox & { checkpoint: string }): Promise<CreatedSandbox> {
    const { kind, checkpoint, owner, egress, volumes = [] } = request;
    const { pool, starting } = this.parts;
    // Processes of a ready sandbox may already have open connections, which a restricted policy would not close.
    const isPlain = !isRestricted(egress) && volumes.length === 0;
    const ready = isPlain ? await pool.take({ kind, checkpoint, owner }) : undefined;
    if (ready !== undefined) return await this.#handedOver({ id: ready, origin: "ready" }, request);
    using _start = pool.trackClientStart();
    const id = newSandboxId();
    try {
      await starting.fromCheckpoint({ ...request, id, memory: true }, true);
      return { id, origin: "restore" };
    } catch (cause) {
      await this.parts.destroy(id);
      throw cause;
    }
  }

  /** Runs the start command before clients can reach the sandbox. */
  async #started(request: CreateSandbox, start: StartCommand): Promise<CreatedSandbox> {
    const { kind, envVars } = request;
    const token = newToken();
    const booted = await this.#booted({ ...request, accessTokens: [token] });
    try {
      const sandbox = new BuildSandbox(booted.id, this, new AbortController().signal, token);
      const context = { user: kind.defaultUser, home: "", workdir: kind.defaultWorkdir, envVars };
      await startUntilReady(sandbox, { start, context, output: silentOutput(), bounds: this.parts.bounds });
    } catch (cause) {
      await this.parts.destroy(booted.id);
      throw new Fault(422, `the template's start command did not become ready: ${Fault.from(cause).message}`, {
        cause,
      });
    }
    return await this.#handedOver(booted, request);
  }

  async #handedOver(made: CreatedSandbox, request: CreateSandbox): Promise<CreatedSandbox> {
    try {
      await this.parts.starting.handOver(made.id, request);
      return made;
    } catch (cause) {
      await this.parts.destroy(made.id);
      throw cause;
    }
  }
}

/** Why a checkpoint cannot run here; undefined: the failure has another cause. */
function mismatchOf(cause: unknown): string | undefined {
  // 500: the checkpoint seemed to fit, but the restore failed.
  return cause instanceof Fault && [404, 422, 500].includes(cause.status) ? cause.message : undefined;
}
