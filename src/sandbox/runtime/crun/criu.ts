/**
 * Calls CRIU directly: it writes the processes and memory of a stopped sandbox into a folder, and restores them from
 * it. Each call runs in its own cgroup, so that a later server finds by name what a killed server left running.
 */
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { rmdir, writeFile } from "node:fs/promises";
import { getPriority } from "node:os";
import { join } from "node:path";
import { described, stderrLog } from "../../../base/log.ts";
import { isRecording, noteUse } from "../../../base/steps.ts";
import { scaled } from "../../../base/time-factor.ts";
import { Fault } from "../../../contract/fault.ts";
import { namedTrees } from "../../../system/cgroup/cgroups.ts";
import { beginToFreeze, freezerOf, processesBelow, thaw } from "../../../system/cgroup/freezer.ts";
import { removeCgroups } from "../../../system/cgroup/removal.ts";
import { attempt, MINIMAL_ENV, run } from "../../../system/command.ts";
import type { DataFolder } from "../../../system/data-folder.ts";
import { endTcpRepair } from "../../../system/net/tcp-repair.ts";
import { TAKE_USUAL_SCORE } from "../../../system/oom-score.ts";
import { overloaded } from "../../../system/overload.ts";
import type { Toolbox } from "../../../system/toolbox.ts";
import { RESTORE_MS } from "../../limits.ts";
import type { OutsideMount } from "../runtime.ts";
import { readToolLog } from "../tool-log.ts";
import { type ToolAction, toolCgroup, waitForDump } from "../tool-work.ts";
import { explain } from "./criu-complaint.ts";
import { CRIU_CONFIG_FILE, criuConfig } from "./criu-config.ts";
import { isGuest, lossOf, SIGNALLED_MIN } from "./criu-loss.ts";
import { dumpRequest, restoreRequest } from "./criu-messages.ts";
import { CriuProcess } from "./criu-process.ts";
import { CriuService } from "./criu-service.ts";
import { rememberKernelFacts } from "./kernel-facts.ts";
import { ReadyCriu, type StartedCriu } from "./ready-criu.ts";
import { StallWatch } from "./stall-watch.ts";

/** A restore without any progress for this long counts as stalled. */
export const RESTORE_STALLED_MS = scaled(5_000);
/** Maximum size of a deleted but open file that is kept in the memory image. */
export const DELETED_FILE_MAX_BYTES = 1024 ** 3;

/** Exists only if a process held a file lock. */
const LOCKS_IMAGE = "filelocks.img";
/** CRIU's logs, in the folder of the sandbox. */
export const DUMP_LOG = "dump.log";
const RESTORE_LOG = "restore.log";
/** Log levels of CRIU. */
const QUIET = 1;
const TALKATIVE = 4;
/** Ignores SIGPIPE: after the server is killed, CRIU's writes to it fail with an error instead of ending CRIU. */
const NO_SIGNAL_ON_LOSS = "trap '' 13; ";
/** Ignores SIGXFSZ, for `stopDump`: writes above the limit fail with an error instead of ending CRIU. */
const NO_SIGNAL_ON_LIMIT = "trap '' 25; ";
/** Protects CRIU from the OOM killer, where that is permitted. */
const SHIELD = "{ echo -1000 > /proc/self/oom_score_adj; } 2> /dev/null || true";

/** How long to wait for a finished CRIU to leave its cgroup. */
const REMOVE_WAIT_MAX_MS = 500;

/** Resets the niceness: restored processes would inherit the server's. */
const ORDINARY_NICENESS = getPriority() === 0 ? "" : "renice -n 0 -p $$ > /dev/null; ";

/**
 * Stages of CRIU at which the host does work. Dump: no process is stopped yet; all are stopped; everything is written.
 * Restore: the image is read and nothing exists; empty namespaces exist; mounts exist but no socket; everything runs.
 */
const NOTHING_STOPPED = "pre-dump";
/** The stage for blocking the network, which the configuration skips. */
const ALL_STOPPED = "network-lock";
const WRITTEN = "post-dump";
const IMAGE_READ = "pre-restore";
const NAMESPACES_MADE = "setup-namespaces";
const MOUNTS_MADE = "post-setup-namespaces";
const RUNNING = "post-resume";

interface Dump {
  id: string;
  pid: number;
  cgroup: string;
  /** The sandbox's own folder, for logs. */
  folder: string;
  images: string;
  mounts: readonly OutsideMount[];
  /** Timeout after which CRIU is killed, for each try. */
  timeoutMs: number;
  /** All processes are stopped, and nothing is written yet. */
  onStopped?(): void;
  /** Runs while all processes are stopped and everything is written; must succeed. */
  whileStopped(): Promise<void>;
}

interface Restore {
  id: string;
  cgroup: string;
  folder: string;
  root: string;
  /** CRIU only starts up until this resolves. */
  images: Promise<string>;
  /** Resolves when root and mounts exist. Until then CRIU only reads. */
  prepared: Promise<unknown>;
  mounts: readonly OutsideMount[];
  /** The content of the sandbox's tmpfs mounts is simple to unpack (tmpfs-content.ts). */
  simpleTmpfs: boolean;
  /** Some mounts are folders that other sandboxes use at the same time. */
  shared?: boolean;
  /** Runs when the namespaces of process `pid` exist and no socket does; must succeed. */
  plug(pid: number): Promise<void>;
}

export class Criu {
  readonly #config: string;
  /** Used by this class only. */
  readonly #folder: string;
  /** One service for images with simple tmpfs content, one for others. */
  readonly #services: Readonly<Record<"simple" | "any", CriuService>>;
  /** CRIU processes that have not ended, by the cgroup they work in. */
  readonly #ending = new Map<string, Promise<unknown>>();
  readonly #ready = new ReadyCriu(() => this.#startToDump());

  private constructor(
    readonly toolbox: Toolbox,
    readonly data: DataFolder,
    readonly version: string,
  ) {
    this.#config = join(data.runFolder, CRIU_CONFIG_FILE);
    writeFileSync(this.#config, criuConfig(), { mode: 0o644 });
    const before = NO_SIGNAL_ON_LOSS + TAKE_USUAL_SCORE + ORDINARY_NICENESS;
    this.#folder = join(data.runFolder, "criu");
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const options = { command: toolbox.criu, before, folder: this.#folder };
    this.#services = {
      simple: new CriuService({ ...options, name: "simple", programs: toolbox.simpleBinFolder }),
      any: new CriuService({ ...options, name: "any", programs: toolbox.binFolder }),
    };
  }

  static async open(toolbox: Toolbox, data: DataFolder): Promise<Criu> {
    await rememberKernelFacts(toolbox.criu, data.runFolder);
    const said = await run([...toolbox.criu, "--version"]);
    return new Criu(toolbox, data, /Version:\s*([\d.]+)/.exec(said)?.[1] ?? "0");
  }

  /**
   * Writes a running sandbox, which is frozen from then on. It is not frozen first, because CRIU cannot stop a process
   * that is both stopped by a signal and frozen. CRIU stops the processes one by one, and they are frozen before it
   * releases them. Throws Fault 422, with the process and the reason, when the sandbox holds something that cannot be
   * written. After a failure, a second try finds the reason: CRIU names the process only with verbose logging.
   *
   * CRIU works inside each process in turn, for a few milliseconds each. If CRIU or one of the other processes is
   * killed from outside at such a moment, that process does not survive; at any other moment the processes continue
   * unharmed. Fault 503 or 404 reports it.
   */
  async dump(dump: Dump): Promise<void> {
    let before: number[] = [];
    let guests: number[] = [];
    const first = await this.#dump(dump, QUIET, async () => {
      before = await processesBelow(freezerOf(dump.cgroup));
      guests = before.filter(isGuest);
    });
    if (first.success) return;
    thaw(dump.cgroup);
    const loss = await lossOf(dump, before, guests, first.exitCode);
    // Needed even after a loss: connections that a killed CRIU blocked continue only after another dump releases them.
    const second = await this.#dump(dump, TALKATIVE);
    if (loss !== undefined) throw loss;
    if (second.success) {
      // Processes that CRIU was working in may have ended after the first check.
      const late = await lossOf(dump, before, guests, first.exitCode);
      if (late !== undefined) throw late;
      return;
    }
    // A CRIU that fails while reading a connection leaves it in repair mode, unusable.
    endTcpRepair(await processesBelow(freezerOf(dump.cgroup)));
    const lossAgain = await lossOf(dump, before, guests, second.exitCode);
    if (lossAgain !== undefined) throw lossAgain;
    if (second.exitCode >= SIGNALLED_MIN) throw killedTwice();
    const ours = second.reason === undefined ? "" : described(second.reason);
    throw explain(readToolLog(join(dump.folder, DUMP_LOG)), ours, before);
  }

  /** `whileLoaded` runs before a process is stopped, while CRIU starts up. */
  async #dump({ id, pid, cgroup, images, ...dump }: Dump, logLevel: number, whileLoaded?: () => Promise<void>) {
    const external = dump.mounts.map(({ inside }) => `mnt[${inside}]:${inside}`);
    const workFd = openSync(dump.folder, "r");
    try {
      const started = await this.#ready.take();
      await using criu = started.criu;
      // For the next server, if this one is killed.
      writeFileSync(this.#noteOf(id), started.cgroup);
      await whileLoaded?.();
      const request = dumpRequest({ imagesFolder: images, logLevel, pid, workFd, external });
      let usedMs = 0;
      const stages = {
        [NOTHING_STOPPED]: () => started.entered,
        [ALL_STOPPED]: async () => dump.onStopped?.(),
        [WRITTEN]: async () => {
          if (started.ahead) usedMs = processorMs(started.pid);
          beginToFreeze(cgroup);
          await dump.whileStopped();
        },
      };
      const done = await criu.do(request, stages, dump.timeoutMs);
      noteUse("helpers", usedMs);
      return done;
    } finally {
      rmSync(this.#noteOf(id), { force: true });
      closeSync(workFd);
      this.#ready.renewSoon();
    }
  }

  close(): Promise<void> {
    return this.#ready.close();
  }

  /** Resolves when no dump of this sandbox by a killed server is running. */
  async untilWritten(id: string): Promise<void> {
    const cgroup = this.#dumpOf(id);
    if (cgroup !== undefined) await waitForDump(cgroup);
  }

  /** The file that names the cgroup of the CRIU that dumps this sandbox. CRIU starts before its sandbox is known. */
  #noteOf(id: string): string {
    return join(this.#folder, `${id}.dump`);
  }

  #dumpOf(id: string): string | undefined {
    const note = this.#noteOf(id);
    return existsSync(note) ? readFileSync(note, "utf8") : undefined;
  }

  /**
   * Makes a running dump fail as on a full disk, so that CRIU releases the processes cleanly. Killing CRIU would also
   * kill a process that it is working in.
   */
  async stopDump(id: string): Promise<void> {
    const cgroup = this.#dumpOf(id);
    const folder = cgroup && freezerOf(cgroup);
    if (folder === undefined || !existsSync(folder)) return;
    for (const pid of await processesBelow(folder)) await attempt(["prlimit", "--fsize=0:0", "--pid", String(pid)]);
  }

  /** Returns the host pid of the first process, which is already running. */
  async restore({ id, folder, cgroup, ...restore }: Restore): Promise<number> {
    const place = await this.#place(id, "restore");
    // CRIU moves nothing in hierarchies without a controller: restored processes stay in CRIU's own cgroup there, and
    // see everything below it.
    const homes = namedTrees().map((tree) => join(tree, this.data.cgroup, id));
    for (const home of homes) mkdirSync(home, { recursive: true });
    const strays = [toolCgroup(this.data, id, "restore"), cgroup];
    const end = () => Promise.all(strays.map((each) => removeCgroups(each)));
    const service = await this.#services[restore.simpleTmpfs ? "simple" : "any"].connect();
    const started = await CriuProcess.served(service.fd, async (success) => {
      if (!success) await end();
      await removeEmpty(place);
    });
    this.#noteEnd(place, started);
    await using criu = started;
    const images = await restore.images;
    let worker: number | undefined;
    let givenUp: Fault | "stalled" | undefined;
    const giveUp = (why: Fault | "stalled" | undefined) => {
      givenUp = why;
      end().catch((error) =>
        stderrLog.write({ level: "error", event: "a restore that was given up goes on", error: described(error) }),
      );
      // A worker that was not found yet is in neither cgroup.
      if (worker === undefined) criu.hangUp();
    };
    using watch = new StallWatch(strays, RESTORE_STALLED_MS, {
      stalled: () => giveUp("stalled"),
      // The worker was killed. Its forked children hold the socket open and would wait for it.
      hasEnded: () => worker !== undefined && !existsSync(`/proc/${worker}`),
      ended: () => giveUp(undefined),
    });
    const workFd = openSync(folder, "r");
    const late = setTimeout(() => giveUp(overloaded(`CRIU restore did not end within ${RESTORE_MS} ms`)), RESTORE_MS);
    let plugged: Promise<void> | undefined;
    try {
      const external = restore.mounts.map(({ inside, outside }) => `mnt[${inside}]:${outside}`);
      const logs = { logLevel: QUIET, logFile: RESTORE_LOG };
      const places = { imagesFolder: images, configFile: this.#config, workFd, root: restore.root, cgroup };
      const request = restoreRequest({ ...logs, ...places, external });
      const done = await criu.do(request, {
        [IMAGE_READ]: () => {
          worker = service.pidIn(folder);
          const entered = enter(worker, [place, ...homes]);
          return watch.during(() => Promise.all([restore.prepared, entered]));
        },
        // Runs beside the creation of mounts.
        [NAMESPACES_MADE]: async (pid) => {
          plugged = restore.plug(pid);
          criu.beside(plugged);
        },
        [MOUNTS_MADE]: () => watch.during(async () => plugged),
        [RUNNING]: async () => noteUse("helpers", processorMs(worker)),
      });
      if (done.success) return done.pid;
      // If the preparation failed, its error is the reason.
      await restore.prepared;
      if (givenUp instanceof Fault) throw givenUp;
      if (givenUp === "stalled" && restore.shared && existsSync(join(images, LOCKS_IMAGE))) throw lockedByAnother();
      if (givenUp === "stalled")
        throw new Fault(500, `CRIU stood still for ${RESTORE_STALLED_MS} ms while it restored ${id}`);
      const log = readToolLog(join(folder, RESTORE_LOG)).trim().slice(-2000);
      const failure = done.reason === undefined ? "" : `${described(done.reason)}\n`;
      throw new Fault(500, `CRIU could not restore ${id}: ${failure}${log}`, { cause: done.reason });
    } finally {
      clearTimeout(late);
      closeSync(workFd);
    }
  }

  /**
   * Starts a CRIU that gets its remaining options with the request. `entered` resolves when it is in its own cgroup;
   * the kernel takes ten milliseconds for the first such move after an idle time. If the server is killed before that,
   * CRIU has not begun and ends.
   */
  async #startToDump(): Promise<StartedCriu> {
    const id = crypto.randomUUID();
    const cgroup = toolCgroup(this.data, id, "dump");
    const place = await this.#place(id, "dump");
    const first = ["/bin/sh", "-c", `${NO_SIGNAL_ON_LOSS}${SHIELD}; ${NO_SIGNAL_ON_LIMIT}exec "$@"`, "sh"];
    const kept = ["--leave-running", "--file-locks", "--manage-cgroups=soft"];
    const bounds = ["--ghost-limit", String(DELETED_FILE_MAX_BYTES)];
    const args = [...kept, ...bounds, "--log-file", DUMP_LOG, "--config", this.#config];
    let entered: Promise<void> | undefined;
    let pid = 0;
    const onStart = (started: number) => {
      pid = started;
      entered = enter(pid, [place]);
      // Prevents an unhandled rejection; callers that await it still see the failure.
      entered.catch(() => undefined);
    };
    const onExit = async (exitCode: number) => {
      if (exitCode !== 0) await removeCgroups(cgroup);
      await removeEmpty(place);
    };
    const env = { ...MINIMAL_ENV, PATH: `${this.toolbox.binFolder}:${MINIMAL_ENV.PATH}` };
    const options = { name: "CRIU dump", env, onStart, onExit };
    const criu = await CriuProcess.start([...first, ...this.toolbox.criu, ...args], options);
    this.#noteEnd(place, criu);
    return { criu, pid, cgroup, entered };
  }

  /** Makes the folder of the cgroup that CRIU works in. */
  async #place(id: string, action: ToolAction): Promise<string> {
    const place = freezerOf(toolCgroup(this.data, id, action));
    // The previous CRIU removes the cgroup when it ends.
    await this.#ending.get(place);
    mkdirSync(place, { recursive: true });
    return place;
  }

  #noteEnd(place: string, criu: CriuProcess): void {
    this.#ending.set(
      place,
      criu.ended.then(() => this.#ending.delete(place)),
    );
  }
}

/** A CRIU that reported success takes a moment to exit. A folder that remains is removed at the next server start. */
async function removeEmpty(place: string): Promise<void> {
  for (let waitMs = 1; waitMs < REMOVE_WAIT_MAX_MS; waitMs *= 2) {
    const isGone = await rmdir(place).then(
      () => true,
      () => !existsSync(place),
    );
    if (isGone) return;
    await Bun.sleep(waitMs);
  }
}

/** CPU time used by a worker of the service. Read only while tracing. */
function processorMs(pid: number | undefined): number {
  if (!isRecording() || pid === undefined) return 0;
  const [nanoseconds] = readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ");
  return Number(nanoseconds) / 1e6;
}

/** Moves a process into these cgroups. Asynchronous, because the kernel may be slow. */
async function enter(pid: number, folders: readonly string[]): Promise<void> {
  for (const folder of folders) await writeFile(join(folder, "cgroup.procs"), String(pid));
}

/** CRIU takes the sandbox's file locks again, and waits while another process holds one. */
function lockedByAnother(): Fault {
  return new Fault(
    422,
    "a process of this sandbox held a lock on a file of a volume that another sandbox seems to hold now. " +
      "Try again when the lock is free, or start this sandbox from its disk with memory: false",
  );
}

function killedTwice(): Fault {
  const message =
    "checkpointing failed twice (CRIU was killed); the sandbox is still running. Connections in it may hang";
  return new Fault(503, message);
}
