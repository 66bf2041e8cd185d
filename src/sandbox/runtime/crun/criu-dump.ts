/**
 * One dump of a running sandbox by CRIU, from stage to stage. The sandbox is not frozen first, because CRIU cannot stop
 * a process that is both stopped by a signal and frozen. CRIU stops the processes one by one, and they are frozen
 * before it releases them.
 *
 * CRIU works inside each process in turn, for a few milliseconds each. If CRIU or one of the other processes is killed
 * from outside at such a moment, that process does not survive; at any other moment the processes continue unharmed.
 * Fault 503 or 404 reports it.
 */
import { closeSync, existsSync, openSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { noteUse, recordsUsage } from "../../../base/steps.ts";
import { Fault } from "../../../contract/fault.ts";
import { GUEST_MOUNT } from "../../../contract/runtime/guest-programs.ts";
import { beginToFreeze, freeze, freezerOf, processesBelow, thaw } from "../../../system/cgroup/freezer.ts";
import { attempt } from "../../../system/command.ts";
import { endTcpRepair } from "../../../system/net/tcp-repair.ts";
import { procText } from "../../../system/proc-text.ts";
import { processMs } from "../../../system/thread-times.ts";
import { IMAGE_STOP_MS } from "../../limits.ts";
import { type CheckpointRequest, FailedTry, type StoppedSandbox } from "../runtime.ts";
import { readToolLog } from "../tool-log.ts";
import { explain } from "./criu-error.ts";
import { dumpRequest } from "./criu-messages.ts";
import { CriuFailed } from "./criu-process.ts";
import { dropMergeMarks } from "./image/image-merging.ts";
import { correctTimers } from "./image/image-timers.ts";
import { ImageWatch } from "./image/image-watch.ts";
import type { ReadyCriu, StartedCriu } from "./ready-criu.ts";

/** CRIU's log, in the folder of the sandbox. */
export const DUMP_LOG = "dump.log";
/** Log levels of CRIU. The first try is quiet, and the second finds the reason of its failure. */
const QUIET = 1;
const TALKATIVE = 4;

/** Stages of CRIU: no process is stopped yet; all are stopped; everything is written. */
const NOTHING_STOPPED = "pre-dump";
/** The stage for blocking the network, which the configuration skips. */
const ALL_STOPPED = "network-lock";
const WRITTEN = "post-dump";

/** Processes that a killed CRIU was working in end within this time. */
const CRIU_AFTERMATH_MS = 50;
/** Lowest exit code that a shell reports for a command killed by a signal. */
const SIGNALLED_MIN = 129;

/** A first try that failed, with the processes of the sandbox before it. */
class FailedDump extends FailedTry {
  constructor(
    readonly processes: readonly number[],
    readonly guests: readonly number[],
    readonly exitCode: number,
    readonly loss: Fault | undefined,
  ) {
    super("CRIU failed; a second try finds the reason");
  }
}

/** The CRIU started ahead, and the file that names the cgroup of the CRIU at work, for the server after this one. */
interface DumpTools {
  ready: ReadyCriu;
  noteFile: string;
}

export class CriuDump implements StoppedSandbox {
  readonly #earlier: FailedDump | undefined;
  readonly #watch: ImageWatch;
  #workFd: number | undefined;
  readonly #givenUp = new AbortController();
  #processes: readonly number[] = [];
  #guests: readonly number[] = [];
  #hasEnded = false;

  private constructor(
    private readonly request: CheckpointRequest,
    private readonly tools: DumpTools,
    private readonly started: StartedCriu,
    earlier?: FailedTry,
  ) {
    this.#earlier = earlier instanceof FailedDump ? earlier : undefined;
    const log = join(request.folder, DUMP_LOG);
    const stop = () => this.#stopWriting();
    this.#watch = new ImageWatch({ ...request.bounds, folder: request.images, log, stop });
  }

  static async stop(request: CheckpointRequest, tools: DumpTools, earlier?: FailedTry): Promise<CriuDump> {
    const dump = new CriuDump(request, tools, await tools.ready.take(), earlier);
    await dump.#undoOnFailure(() => dump.#stop());
    return dump;
  }

  get givenUp(): AbortSignal {
    return this.#givenUp.signal;
  }

  async write(): Promise<void> {
    const { criu, pid, ahead } = this.started;
    await this.#undoOnFailure(async () => {
      await criu.until(WRITTEN);
      if (ahead && recordsUsage()) noteUse("helpers", processMs(pid) ?? 0);
      beginToFreeze(this.request.cgroup);
      await correctTimers(this.request.images);
      if (this.request.sharesMemory) await dropMergeMarks(this.request.images);
    });
  }

  async release(): Promise<void> {
    await this.#undoOnFailure(async () => {
      await this.started.criu.succeed();
      await this.#end();
      if (this.#earlier !== undefined) {
        // Processes that CRIU was working in may have ended after the first check.
        const loss = this.#earlier.loss ?? (await this.#lossAfter(this.#earlier.exitCode));
        if (loss !== undefined) throw loss;
      }
      // Freezing began when everything was written; it completes when CRIU has released the last process.
      await freeze(this.request.cgroup);
    });
  }

  async undo(): Promise<void> {
    await this.#end();
    thaw(this.request.cgroup);
  }

  async #stop(): Promise<void> {
    const { pid, images, mounts, cgroup, bounds } = this.request;
    const { criu, entered } = this.started;
    this.#workFd = openSync(this.request.folder, "r");
    writeFileSync(this.tools.noteFile, this.started.cgroup);
    this.#processes = this.#earlier?.processes ?? (await processesIn(cgroup));
    this.#guests = this.#earlier?.guests ?? this.#processes.filter(isGuest);
    const external = mounts.map(({ inside }) => `mnt[${inside}]:${inside}`);
    const logLevel = this.#earlier === undefined ? QUIET : TALKATIVE;
    const request = dumpRequest({ imagesFolder: images, logLevel, pid, workFd: this.#workFd, external });
    criu.begin(request, bounds.maxMs + IMAGE_STOP_MS);
    await criu.until(NOTHING_STOPPED);
    await entered;
    await criu.until(ALL_STOPPED);
  }

  async #end(): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#watch[Symbol.dispose]();
    await this.started.criu[Symbol.asyncDispose]();
    if (this.#workFd !== undefined) closeSync(this.#workFd);
    rmSync(this.tools.noteFile, { force: true });
    this.tools.ready.renewSoon();
  }

  async #undoOnFailure(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (cause) {
      await this.undo();
      const failed = cause instanceof CriuFailed && this.#watch.fault === undefined ? cause : undefined;
      // A second try is needed even after a loss: connections that a killed CRIU blocked continue only after another
      // dump releases them.
      if (failed !== undefined && this.#earlier === undefined) {
        const loss = await this.#lossAfter(failed.exitCode);
        throw new FailedDump(this.#processes, this.#guests, failed.exitCode, loss);
      }
      // A CRIU that fails while reading a connection leaves it in repair mode, unusable.
      endTcpRepair(await processesIn(this.request.cgroup));
      throw failed === undefined ? (this.#watch.fault ?? cause) : await this.#reason(failed.exitCode);
    }
  }

  /** Why the second try failed. */
  async #reason(exitCode: number): Promise<Fault> {
    const loss = this.#earlier?.loss ?? (await this.#lossAfter(exitCode));
    if (loss !== undefined) return loss;
    const killed =
      "checkpointing failed twice (CRIU was killed); the sandbox is still running. Connections in it may hang";
    if (exitCode >= SIGNALLED_MIN) return new Fault(503, killed);
    return explain(await readToolLog(join(this.request.folder, DUMP_LOG)), this.#processes);
  }

  /** As on a full disk, CRIU then releases the processes cleanly. Killing it would kill a process, too. */
  async #stopWriting(): Promise<void> {
    this.#givenUp.abort(this.#watch.fault);
    for (const pid of await processesIn(this.started.cgroup)) {
      await attempt(["prlimit", "--fsize=0:0", "--pid", String(pid)]);
    }
  }

  /**
   * The processes that the sandbox lost when CRIU failed or was killed. Throws when the sandbox itself ended. That can
   * also happen when CRIU exits by itself: it leaves everything as it is when one of the processes is killed during the
   * dump.
   */
  async #lossAfter(exitCode: number): Promise<Fault | undefined> {
    const { id, pid, cgroup } = this.request;
    await Bun.sleep(CRIU_AFTERMATH_MS);
    const after = await processesIn(cgroup);
    if (!after.includes(pid)) throw new Fault(404, `sandbox ${id} ended while CRIU wrote its checkpoint`);
    const gone = this.#processes.filter((each) => !after.includes(each));
    const wasKilled = exitCode >= SIGNALLED_MIN;
    // Other processes come and go normally. A guest that is gone was killed during the dump, and restarts by itself.
    if (!wasKilled && !gone.some((each) => this.#guests.includes(each))) return undefined;
    const lost = wasKilled ? gone.length : gone.filter((each) => !this.#guests.includes(each)).length;
    if (lost === 0) return undefined;
    const these = lost === 1 ? "one process of the sandbox has" : `${lost} processes of the sandbox have`;
    const what = wasKilled
      ? "CRIU was killed while it wrote the checkpoint"
      : "the guest was killed during the checkpoint";
    return new Fault(503, `${what}, and ${these} ended; the others are still running`);
  }
}

/** None if the cgroup is gone. */
async function processesIn(cgroup: string): Promise<number[]> {
  const folder = freezerOf(cgroup);
  return existsSync(folder) ? await processesBelow(folder) : [];
}

/** Judged by the process's own command line, which is enough for this purpose. */
function isGuest(pid: number): boolean {
  return procText(`/proc/${pid}/cmdline`).startsWith(`${GUEST_MOUNT}/bin/guest`);
}
