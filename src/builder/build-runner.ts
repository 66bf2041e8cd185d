/**
 * Builds templates: from an image or another template, step by step in a sandbox, to an image that all its sandboxes
 * share. With a start command, the build also makes a checkpoint of the started processes.
 *
 *   base → deepest cached layer → remaining steps, a layer after each → image → start, ready, checkpoint
 *   → test: a sandbox of the result runs a command
 *
 * A build always ends with an outcome. A failed build leaves nothing but its layers. This folder never lists or names
 * templates: its callers keep those records.
 */
import { Background } from "../base/background.ts";
import { described, stderrLog } from "../base/log.ts";
import { SerialQueue } from "../base/serial-queue.ts";
import { Fault } from "../contract/fault.ts";
import type { BuildLogEntry, BuildOutcome, BuildRequest, PrepareStart } from "../contract/internal/host.ts";
import { openEgress } from "../sandbox/network/private-egress.ts";
import { BuildJob, type BuildParts } from "./build-job.ts";
import { BuildLog } from "./build-log.ts";
import { runBuild } from "./build-run.ts";
import { BuildSandbox } from "./build-sandbox.ts";
import { silentOutput } from "./command-output.ts";
import type { BuildResult } from "./results.ts";
import { startUntilReady } from "./start-command.ts";

interface Underway {
  readonly over: AbortController;
  readonly ended: Promise<unknown>;
}

export class BuildRunner {
  readonly #underway = new Map<string, Underway>();
  readonly #closing = new AbortController();
  readonly #background = new Background(stderrLog);
  readonly #collecting = new SerialQueue();

  constructor(
    private readonly parts: BuildParts,
    private readonly onEntries: (id: string, entries: readonly BuildLogEntry[]) => void,
  ) {}

  async build(request: BuildRequest): Promise<BuildOutcome> {
    const { id } = request;
    if (this.#underway.has(id)) throw new Fault(409, `the build ${id} is already in progress`);
    const over = new AbortController();
    const { maxMs } = this.parts.bounds;
    const late = setTimeout(
      () => over.abort(new Fault(422, `the build was ended: it took longer than ${maxMs / 1000} s`)),
      maxMs,
    );
    const outcome = this.#run(request, over.signal);
    this.#underway.set(id, { over, ended: outcome });
    try {
      return await outcome;
    } finally {
      clearTimeout(late);
      this.#underway.delete(id);
      this.#background.run("layers could not be collected", () => this.#collecting.run(() => this.collect()));
    }
  }

  /** Resolves when nothing of the build runs any more. */
  async cancel(id: string, reason: string): Promise<void> {
    const found = this.#underway.get(id);
    found?.over.abort(new Fault(422, reason));
    await found?.ended;
  }

  /** Throws the faults of a pause. */
  async prepareStart({ name, kind, envVars, start, privateRanges }: PrepareStart): Promise<void> {
    const { sandboxes, bounds, images, checkpointing } = this.parts;
    using _image = images.hold(kind.image);
    const over = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(bounds.maxMs)]);
    const request = { kind, envVars, egress: openEgress(privateRanges) };
    await using sandbox = await BuildSandbox.open(sandboxes, request, over);
    const context = { user: kind.defaultUser, home: "", workdir: kind.defaultWorkdir, envVars };
    await startUntilReady(sandbox, { start, context, output: silentOutput(), bounds });
    await sandbox.keepMemory(checkpointing, name);
  }

  /** Removes unneeded layers, results and blobs. Each build adds some, so the oldest go. */
  async collect(): Promise<void> {
    const { bases, images, checkpoints, layers, results, bounds } = this.parts;
    await bases.collect();
    await layers.collect(bounds, (image) => images.has(image));
    const isThere = ({ image, checkpoint }: BuildResult) =>
      images.has(image) && (checkpoint === undefined || checkpoints.has(checkpoint));
    await results.collect(isThere, bounds.layersKeptMs);
  }

  async close(): Promise<void> {
    this.#closing.abort(new Fault(503, "the server is being stopped"));
    await Promise.all([...this.#underway.keys()].map((id) => this.cancel(id, "the server was stopped")));
    await this.#background.settled();
  }

  async #run(request: BuildRequest, signal: AbortSignal): Promise<BuildOutcome> {
    const { bounds } = this.parts;
    const log = new BuildLog((entries) => this.onEntries(request.id, entries), bounds.logMaxBytes);
    const job = new BuildJob(this.parts, request, log, signal);
    try {
      return await runBuild(job);
    } catch (thrown) {
      const message = reasonOf(signal.aborted ? signal.reason : thrown, request.id);
      log.say("error", job.at, message);
      return { isReady: false, step: job.at, message };
    } finally {
      log.flush();
    }
  }
}

/** The reason for the client. Internal errors, with paths and all, go to the operator's log only. */
function reasonOf(thrown: unknown, build: string): string {
  if (thrown instanceof Fault && thrown.status !== 500) return thrown.message;
  stderrLog.write({ level: "error", event: "a build failed", build, error: described(thrown) });
  return `the build failed inside the server, whose log has the details under ${build}`;
}
