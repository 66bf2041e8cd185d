/**
 * CRIU, called directly: it writes the processes and the memory of a stopped sandbox into a folder, and makes them
 * again from it. Each call runs in a cgroup of its own, so that what a killed server left under way is found by name.
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

/** A restore in which nothing moves for so long never will; how often it is looked at. */
export const RESTORE_STALLED_MS = scaled(5_000);
/** A deleted file that a process still holds open is kept in the memory image up to this size. */
export const DELETED_FILE_MAX_BYTES = 1024 ** 3;

/** There is one only if a process held a lock. */
const LOCKS_IMAGE = "filelocks.img";
/** CRIU's logs, in the folder of the sandbox. */
export const DUMP_LOG = "dump.log";
const RESTORE_LOG = "restore.log";
/** Log levels of CRIU. */
const QUIET = 1;
const TALKATIVE = 4;
/** For a server that is killed: who writes to it gets an error, and not a signal (SIGPIPE). */
const NO_SIGNAL_ON_LOSS = "trap '' 13; ";
/** For `stopDump`: the same for who writes more than the limit (SIGXFSZ). */
const NO_SIGNAL_ON_LIMIT = "trap '' 25; ";
/** CRIU that runs out of memory is not to be the one that is ended for it; not everywhere may this be said. */
const SHIELD = "{ echo -1000 > /proc/self/oom_score_adj; } 2> /dev/null || true";

/** For the one in a cgroup that is to go. */
const REMOVE_WAIT_MAX_MS = 500;

/** What CRIU restores would have the niceness of the server, where somebody gave it one. */
const ORDINARY_NICENESS = getPriority() === 0 ? "" : "renice -n 0 -p $$ > /dev/null; ";

/**
 * Stages of CRIU's work at which we have some. Of a dump: no process is stopped yet, all are, and everything is
 * written. Of a restore: the image is read and nothing is made, namespaces are there and nothing is in them, and there
 * are mounts in them but no socket, and all of it runs.
 */
const NOTHING_STOPPED = "pre-dump";
/** When it would cut the network off, had it not been told otherwise. */
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
  /** Its own folder, for logs. */
  folder: string;
  images: string;
  mounts: readonly OutsideMount[];
  /** After this CRIU is killed, for each try. */
  timeoutMs: number;
  /** All processes stand still, and nothing is written yet. */
  onStopped?(): void;
  /** Done while all processes stand still and everything is written; must succeed. */
  whileStopped(): Promise<void>;
}

interface Restore {
  id: string;
  cgroup: string;
  folder: string;
  root: string;
  /** Until it is there CRIU only gets ready. */
  images: Promise<string>;
  /** Root and mounts are there. Until then CRIU only reads. */
  prepared: Promise<unknown>;
  mounts: readonly OutsideMount[];
  /** What is to be unpacked into its filesystems in memory is simple. */
  simpleTmpfs: boolean;
  /** Some of these are folders that others use at the same time. */
  shared?: boolean;
  /** Done when the namespaces, of process `pid`, are there, and before a socket is; must succeed. */
  plug(pid: number): Promise<void>;
}

export class Criu {
  readonly #config: string;
  /** Nobody else's. */
  readonly #folder: string;
  /** For images whose filesystems in memory are simple, and for others. */
  readonly #services: Readonly<Record<"simple" | "any", CriuService>>;
  /** Those that are not gone yet, by the cgroup that they work in. */
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
   * Writes a running sandbox, which is frozen from then on: CRIU stops the processes one by one (it could not stop one
   * that is stopped by a signal and frozen as well), and they are frozen before it lets them go. Fault 422 when the
   * sandbox holds something that cannot be written, with the process and the reason. The second try, after a failure,
   * is for the reason: CRIU names the process only when it tells everything.
   *
   * CRIU works inside each process in turn, for a few milliseconds each. If it is killed at such a moment by somebody
   * else, or one of the others is, that process does not survive it; at any other moment the processes go on as they
   * were. Fault 503 or 404 says that it happened.
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
    // Also then: connections that a killed CRIU held back go on only when another lets them go.
    const second = await this.#dump(dump, TALKATIVE);
    if (loss !== undefined) throw loss;
    if (second.success) {
      // What CRIU had its hand in may have taken longer to end than was waited for.
      const late = await lossOf(dump, before, guests, first.exitCode);
      if (late !== undefined) throw late;
      return;
    }
    // One that fails while it reads a connection leaves it unusable.
    endTcpRepair(await processesBelow(freezerOf(dump.cgroup)));
    const lossAgain = await lossOf(dump, before, guests, second.exitCode);
    if (lossAgain !== undefined) throw lossAgain;
    if (second.exitCode >= SIGNALLED_MIN) throw killedTwice();
    const ours = second.reason === undefined ? "" : described(second.reason);
    throw explain(readToolLog(join(dump.folder, DUMP_LOG)), ours, before);
  }

  /** `whileLoaded` is done before a process is stopped, while CRIU gets ready. */
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

  /** Resolves when no dump of this one that a killed server had begun is under way. */
  async untilWritten(id: string): Promise<void> {
    const cgroup = this.#dumpOf(id);
    if (cgroup !== undefined) await waitForDump(cgroup);
  }

  /** Where the cgroup of the CRIU that writes this sandbox is noted: it was started before it was known for whom. */
  #noteOf(id: string): string {
    return join(this.#folder, `${id}.dump`);
  }

  #dumpOf(id: string): string | undefined {
    const note = this.#noteOf(id);
    return existsSync(note) ? readFileSync(note, "utf8") : undefined;
  }

  /**
   * Has a dump that is under way fail as on a full disk: CRIU then lets go of the processes in good order. If it were
   * killed instead, a process in which it works at that moment would go with it.
   */
  async stopDump(id: string): Promise<void> {
    const cgroup = this.#dumpOf(id);
    const folder = cgroup && freezerOf(cgroup);
    if (folder === undefined || !existsSync(folder)) return;
    for (const pid of await processesBelow(folder)) await attempt(["prlimit", "--fsize=0:0", "--pid", String(pid)]);
  }

  /** Answers the host pid of the first process, which runs already. */
  async restore({ id, folder, cgroup, ...restore }: Restore): Promise<number> {
    const place = await this.#place(id, "restore");
    // CRIU puts nothing into trees without a controller: what it makes stays where it is itself there, and sees all
    // below that.
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
      // One that has not been found yet is in neither of them.
      if (worker === undefined) criu.hangUp();
    };
    using watch = new StallWatch(strays, RESTORE_STALLED_MS, {
      stalled: () => giveUp("stalled"),
      // It was killed. What it has forked holds its socket open, and would wait for it.
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
        // Beside the mounts.
        [NAMESPACES_MADE]: async (pid) => {
          plugged = restore.plug(pid);
          criu.beside(plugged);
        },
        [MOUNTS_MADE]: () => watch.during(async () => plugged),
        [RUNNING]: async () => noteUse("helpers", processorMs(worker)),
      });
      if (done.success) return done.pid;
      // Who was kept waiting in vain hears why.
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
   * One that is told the rest with what it is to write. What CRIU makes for a dump is not in its own cgroup. When
   * `entered` resolves it is. The kernel takes ten milliseconds for the first such move after a while without any; if
   * the server is killed before, it has not begun with anything, and ends.
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
      // Whoever waits for it hears of it.
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

  /** The folder of the cgroup that it works in. */
  async #place(id: string, action: ToolAction): Promise<string> {
    const place = freezerOf(toolCgroup(this.data, id, action));
    // The one before takes its cgroup with it.
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

/** One that has said that it is done is there for a moment longer. What stays is found by the next start. */
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

/** What one that was not started for this, or not by us, has used by now. Only for who records steps. */
function processorMs(pid: number | undefined): number {
  if (!isRecording() || pid === undefined) return 0;
  const [nanoseconds] = readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ");
  return Number(nanoseconds) / 1e6;
}

/** Moves a process into these cgroups. Not on this thread: the kernel may take its time. */
async function enter(pid: number, folders: readonly string[]): Promise<void> {
  for (const folder of folders) await writeFile(join(folder, "cgroup.procs"), String(pid));
}

/** CRIU takes the locks of a sandbox again and waits for each, for as long as somebody else has it. */
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
