/**
 * Calls CRIU directly: it writes the processes and memory of a stopped sandbox into a folder, and restores them from
 * it. Each call runs in its own cgroup, so that a later server finds by name what a killed server left running.
 */
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { rmdir, writeFile } from "node:fs/promises";
import { getPriority } from "node:os";
import { join } from "node:path";
import { described, stderrLog } from "../../../base/log.ts";
import { recordsUsage } from "../../../base/steps.ts";
import { scaled } from "../../../base/time-factor.ts";
import { Fault } from "../../../contract/fault.ts";
import { namedTrees } from "../../../system/cgroup/cgroups.ts";
import { freezerOf } from "../../../system/cgroup/freezer.ts";
import { removeCgroups } from "../../../system/cgroup/removal.ts";
import { MINIMAL_ENV, run } from "../../../system/command.ts";
import type { DataFolder } from "../../../system/data-folder.ts";
import { TAKE_USUAL_SCORE } from "../../../system/oom-score.ts";
import { MERGEABLE } from "../../../system/page-merging.ts";
import type { Toolbox } from "../../../system/toolbox.ts";
import { RESTORE_MS } from "../../limits.ts";
import type { CheckpointRequest, FailedTry, RestoreRequest, StoppedSandbox } from "../runtime.ts";
import { readToolLog } from "../tool-log.ts";
import { type ToolAction, toolCgroup, waitForDump } from "../tool-work.ts";
import { CRIU_CONFIG_FILE, criuConfig } from "./criu-config.ts";
import { CriuDump, DUMP_LOG } from "./criu-dump.ts";
import { restoreRequest } from "./criu-messages.ts";
import { CriuFailed, CriuProcess } from "./criu-process.ts";
import { rememberKernelFacts } from "./kernel-facts.ts";
import { ReadyCriu, type StartedCriu } from "./ready-criu.ts";
import { StallWatch } from "./stall-watch.ts";

/** A restore without any progress for this long counts as stalled. */
export const RESTORE_STALLED_MS = scaled(5_000);
/** Maximum size of a deleted but open file that is kept in the memory image. */
export const DELETED_FILE_MAX_BYTES = 1024 ** 3;

/** Exists only if a process held a file lock. */
const LOCKS_IMAGE = "filelocks.img";
const RESTORE_LOG = "restore.log";
/** CRIU's log level: errors only. */
const QUIET = 1;
/** Ignores SIGPIPE: after the server is killed, CRIU's writes to it fail with an error instead of ending CRIU. */
const NO_SIGNAL_ON_LOSS = "trap '' 13; ";
/** Ignores SIGXFSZ: when a limit stops a dump, CRIU's writes fail with an error instead of ending CRIU. */
const NO_SIGNAL_ON_LIMIT = "trap '' 25; ";
/** Protects CRIU from the OOM killer, where that is permitted. */
const SHIELD = "{ echo -1000 > /proc/self/oom_score_adj; } 2> /dev/null || true";

/** How long to wait for a finished CRIU to leave its cgroup. */
const REMOVE_WAIT_MAX_MS = 500;

/** Resets the niceness: restored processes would inherit the server's. */
const ORDINARY_NICENESS = getPriority() === 0 ? "" : "renice -n 0 -p $$ > /dev/null; ";

/**
 * CRIU makes the first process of a restored sandbox a child of its own parent. This shell is that parent and ends with
 * CRIU; so init inherits the sandbox, and the server gets no child that it does not wait for.
 */
const RESTORE_SHELL = [
  "/bin/sh",
  "-c",
  `${NO_SIGNAL_ON_LOSS}${TAKE_USUAL_SCORE}${ORDINARY_NICENESS}"$@"; exit $?`,
  "sh",
];

/** Stages of a restore: the image is read and nothing exists; empty namespaces exist; mounts exist but no socket. */
const IMAGE_READ = "pre-restore";
const NAMESPACES_MADE = "setup-namespaces";
const MOUNTS_MADE = "post-setup-namespaces";

interface Restore extends Omit<RestoreRequest, "ids" | "size" | "grown" | "images" | "plug"> {
  /** CRIU only starts up until this resolves. */
  images: Promise<string>;
  /** Runs when the namespaces of process `pid` exist and no socket does; must succeed. */
  plug(pid: number): Promise<void>;
}

interface StartedToRestore {
  criu: CriuProcess;
  /** The shell that is its parent. */
  shell: number;
  /** Awaits `work` when that shell has ended. */
  atExit(work: (exitCode: number) => Promise<void>): void;
}

export class Criu {
  readonly #config: string;
  readonly #folder: string;
  readonly #env: Record<string, string>;
  /** CRIU processes that have not ended, by the cgroup they work in. */
  readonly #ending = new Map<string, Promise<unknown>>();
  readonly #ready = new ReadyCriu((ahead) => this.#startToDump(ahead));
  /** For sandboxes that share memory: one more program starts before CRIU. */
  readonly #readyToShare = new ReadyCriu(() => this.#startToRestore(MERGEABLE));

  private constructor(
    readonly toolbox: Toolbox,
    readonly data: DataFolder,
    readonly version: string,
  ) {
    this.#config = join(data.runFolder, CRIU_CONFIG_FILE);
    writeFileSync(this.#config, criuConfig(), { mode: 0o644 });
    this.#env = { ...MINIMAL_ENV, PATH: `${toolbox.binFolder}:${MINIMAL_ENV.PATH}` };
    this.#folder = join(data.runFolder, "criu");
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
  }

  static async open(toolbox: Toolbox, data: DataFolder): Promise<Criu> {
    await rememberKernelFacts(toolbox.criu, data.runFolder);
    const output = await run([...toolbox.criu, "--version"]);
    return new Criu(toolbox, data, /Version:\s*([\d.]+)/.exec(output)?.[1] ?? "0");
  }

  /** Stops a running sandbox and begins to write it. `earlier` is the first try, if that failed. */
  stop(request: CheckpointRequest, earlier?: FailedTry): Promise<StoppedSandbox> {
    return CriuDump.stop(request, { ready: this.#ready, noteFile: this.#noteOf(request.id) }, earlier);
  }

  async close(): Promise<void> {
    await Promise.all([this.#ready.close(), this.#readyToShare.close()]);
  }

  /** Resolves when no dump of this sandbox by a killed server is running. */
  async untilWritten(id: string): Promise<void> {
    const note = this.#noteOf(id);
    if (existsSync(note)) await waitForDump(readFileSync(note, "utf8"));
  }

  /** The file that names the cgroup of the CRIU that dumps this sandbox. CRIU starts before its sandbox is known. */
  #noteOf(id: string): string {
    return join(this.#folder, `${id}.dump`);
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
    const started = await (restore.sharesMemory ? this.#readyToShare.take() : this.#startToRestore([]));
    const { shell } = started;
    started.atExit(async (exitCode) => {
      if (exitCode !== 0) await end();
      await removeEmpty(place);
    });
    await using criu = started.criu;
    this.#noteEnd(place, criu);
    const images = await restore.images;
    let isStalled = false;
    using watch = new StallWatch(strays, RESTORE_STALLED_MS, () => {
      isStalled = true;
      end().catch((error) =>
        stderrLog.write({ level: "error", event: "a stalled restore could not be ended", error: described(error) }),
      );
    });
    const workFd = openSync(folder, "r");
    let plugged: Promise<void> | undefined;
    try {
      const external = restore.mounts.map(({ inside, outside }) => `mnt[${inside}]:${outside}`);
      const logs = { logLevel: QUIET, logFile: RESTORE_LOG };
      const places = { imagesFolder: images, configFile: this.#config, workFd, root: restore.root, cgroup };
      criu.begin(restoreRequest({ ...logs, ...places, external }), RESTORE_MS);
      await criu.until(IMAGE_READ);
      await watch.during(Promise.all([restore.prepared, enter(childOf(shell), [place, ...homes])]));
      // Runs beside the creation of mounts.
      plugged = restore.plug(await criu.until(NAMESPACES_MADE));
      plugged.catch(() => undefined);
      await criu.until(MOUNTS_MADE);
      await watch.during(plugged);
      const first = await criu.succeed();
      // A trace shows the processor time of CRIU, which is known when CRIU has ended.
      if (recordsUsage()) await criu.ended;
      return first;
    } catch (cause) {
      await Promise.allSettled([plugged]);
      if (!(cause instanceof CriuFailed)) throw cause;
      // If the preparation failed, its error is the reason.
      await restore.prepared;
      if (isStalled && restore.shared && existsSync(join(images, LOCKS_IMAGE))) throw lockedByAnother();
      if (isStalled) throw new Fault(500, `CRIU made no progress for ${RESTORE_STALLED_MS} ms while it restored ${id}`);
      const log = (await readToolLog(join(folder, RESTORE_LOG))).trim().slice(-2000);
      throw new Fault(500, `CRIU could not restore ${id}: ${log}`, { cause });
    } finally {
      closeSync(workFd);
      if (restore.sharesMemory) this.#readyToShare.renewSoon();
    }
  }

  /** Starts a CRIU that restores nothing yet. `prefix` is a command that becomes the one after it. */
  async #startToRestore(prefix: readonly string[]): Promise<StartedToRestore> {
    let onExit: (exitCode: number) => Promise<void> = async () => undefined;
    let shell = 0;
    const onStart = (pid: number) => {
      shell = pid;
    };
    const options = { name: "CRIU restore", env: this.#env, onStart, onExit: (exitCode: number) => onExit(exitCode) };
    const criu = await CriuProcess.start([...prefix, ...RESTORE_SHELL, ...this.toolbox.criu], options);
    const atExit: StartedToRestore["atExit"] = (work) => {
      onExit = work;
    };
    return { criu, shell, atExit };
  }

  /**
   * Starts a CRIU that gets its remaining options with the request. `entered` resolves when it is in its own cgroup;
   * the kernel takes ten milliseconds for the first such move after an idle time. If the server is killed before that,
   * CRIU has not begun and ends.
   */
  async #startToDump(ahead: boolean): Promise<StartedCriu> {
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
    const options = { name: "CRIU dump", env: this.#env, onStart, onExit };
    const criu = await CriuProcess.start([...first, ...this.toolbox.criu, ...args], options);
    this.#noteEnd(place, criu);
    return { criu, pid, cgroup, entered, ahead };
  }

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

/** Moves a process into these cgroups. Asynchronous, because the kernel may be slow. */
async function enter(pid: number, folders: readonly string[]): Promise<void> {
  for (const folder of folders) await writeFile(join(folder, "cgroup.procs"), String(pid));
}

/** The only child of a shell. Throws when it has ended: a zero would move the server itself. */
function childOf(pid: number): number {
  const child = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8"));
  if (child === 0) throw new Fault(500, "CRIU ended when it had read the image");
  return child;
}

/** CRIU takes the sandbox's file locks again, and waits while another process holds one. */
function lockedByAnother(): Fault {
  return new Fault(
    422,
    "a process of this sandbox held a lock on a file of a volume that another sandbox seems to hold now. " +
      "Try again when the lock is free, or start this sandbox from its disk with memory: false",
  );
}
