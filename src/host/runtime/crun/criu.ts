/**
 * CRIU, called directly: it writes the processes and the memory of a stopped sandbox into a folder, and makes them
 * again from it. Each call runs in a cgroup of its own, so that what a killed server left under way is found by name.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { rmdir } from "node:fs/promises";
import { getPriority } from "node:os";
import { join } from "node:path";
import { Fault } from "../../../contract/fault.ts";
import { GUEST_MOUNT } from "../../../contract/runtime/guest-programs.ts";
import { described, stderrLog } from "../../../work/log.ts";
import { namedTrees } from "../../cgroup/cgroups.ts";
import { freezeCommand, freezerOf, processesBelow, thaw } from "../../cgroup/freezer.ts";
import { removeCgroups } from "../../cgroup/removal.ts";
import { CRIU_AFTERMATH_MS, DELETED_FILE_MAX_BYTES, RESTORE_MS, RESTORE_STALLED_MS } from "../../limits.ts";
import { attempt, MINIMAL_ENV, run } from "../../system/command.ts";
import type { DataFolder } from "../../system/data-folder.ts";
import { TAKE_USUAL_SCORE } from "../../system/oom-score.ts";
import { endTcpRepair } from "../../system/tcp-repair.ts";
import { ACTION_SCRIPT_ENV, ACTION_STAGE_ENV, type Toolbox } from "../../system/toolbox.ts";
import type { OutsideMount } from "../runtime.ts";
import { readToolLog } from "../tool-log.ts";
import { type ToolAction, toolCgroup } from "../tool-work.ts";
import { explain } from "./criu-complaint.ts";
import { CRIU_CONFIG_FILE, criuConfig } from "./criu-config.ts";
import { rememberKernelFacts } from "./kernel-facts.ts";
import { StallWatch } from "./stall-watch.ts";

/** There is one only if a process held a lock. */
const LOCKS_IMAGE = "filelocks.img";
const QUIET = "-v1";
const TALKATIVE = "-v4";
/** What a shell calls a command that ended by a signal. */
const SIGNALLED_MIN = 129;
/** For `stopDump`: who writes more than the limit gets an error, and not a signal (SIGXFSZ). */
const NO_SIGNAL_ON_LIMIT = "trap '' 25";
/** CRIU that runs out of memory is not to be the one that is ended for it; not everywhere may this be said. */
const SHIELD = "{ echo -1000 > /proc/self/oom_score_adj; } 2> /dev/null || true";

/** What CRIU restores would have the niceness of the server, where somebody gave it one. */
const ORDINARY_NICENESS = getPriority() === 0 ? "" : "renice -n 0 -p $$ > /dev/null; ";

/** The stage of CRIU's work at which our commands run: everything written, or namespaces there and nothing in them. */
const STAGE_OF: Readonly<Record<ToolAction, string>> = { dump: "post-dump", restore: "setup-namespaces" };

interface Dump {
  id: string;
  pid: number;
  cgroup: string;
  /** Its own folder, for logs and scripts. */
  folder: string;
  images: string;
  mounts: readonly OutsideMount[];
  /** After this CRIU is killed, for each try. */
  timeoutMs: number;
  /** Run while all processes stand still and everything is written: shell commands that must succeed. */
  finally: string;
}

interface Restore {
  id: string;
  cgroup: string;
  folder: string;
  root: string;
  images: string;
  mounts: readonly OutsideMount[];
  /** Some of these are folders that others use at the same time. */
  shared?: boolean;
  /** Run when the namespaces are there but no socket is: shell commands that know $CRTOOLS_INIT_PID. */
  plug: string;
}

export class Criu {
  readonly #config: string;

  private constructor(
    readonly toolbox: Toolbox,
    readonly data: DataFolder,
    readonly version: string,
  ) {
    this.#config = join(data.runFolder, CRIU_CONFIG_FILE);
    writeFileSync(this.#config, criuConfig(), { mode: 0o644 });
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
    const before = await processesBelow(freezerOf(dump.cgroup));
    const guests = before.filter(isGuest);
    const first = await this.#dump(dump, QUIET);
    if (first.exitCode === 0) return;
    thaw(dump.cgroup);
    const loss = await lossOf(dump, before, guests, first.exitCode);
    // Also then: connections that a killed CRIU held back go on only when another lets them go.
    const second = await this.#dump(dump, TALKATIVE);
    if (loss !== undefined) throw loss;
    if (second.exitCode === 0) {
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
    const [log, scriptLog] = ["dump.log", "post-dump.log"].map((name) => readToolLog(join(dump.folder, name)));
    throw explain(log ?? "", scriptLog ?? "", before);
  }

  async #dump(dump: Dump, verbosity: string) {
    const script = this.#script(dump.folder, "dump", `${freezeCommand(dump.cgroup)}\n${dump.finally}`);
    const strays = toolCgroup(this.data, dump.id, "dump");
    return await this.#run(dump.id, "dump", dump.timeoutMs, [strays], script, [
      "dump",
      "--tree",
      String(dump.pid),
      "--leave-running",
      "--ghost-limit",
      String(DELETED_FILE_MAX_BYTES),
      "--action-script",
      this.toolbox.actionScript,
      ...this.#places(dump.images, dump.folder, "dump.log", verbosity),
      ...dump.mounts.flatMap(({ inside }) => ["--external", `mnt[${inside}]:${inside}`]),
    ]);
  }

  /**
   * Has a dump that is under way fail as on a full disk: CRIU then lets go of the processes in good order. If it were
   * killed instead, a process in which it works at that moment would go with it.
   */
  async stopDump(id: string): Promise<void> {
    const folder = freezerOf(toolCgroup(this.data, id, "dump"));
    if (!existsSync(folder)) return;
    for (const pid of await processesBelow(folder)) await attempt(["prlimit", "--fsize=0:0", "--pid", String(pid)]);
  }

  /** Answers the host pid of the first process, which runs already. */
  async restore(restore: Restore): Promise<number> {
    const script = this.#script(restore.folder, "restore", restore.plug);
    const pidFile = join(restore.folder, "pid");
    // CRIU writes no file that is there, such as crun's.
    rmSync(pidFile, { force: true });
    const strays = [toolCgroup(this.data, restore.id, "restore"), restore.cgroup];
    let stalled = false;
    using _watch = new StallWatch(strays, RESTORE_STALLED_MS, () => {
      stalled = true;
      for (const cgroup of strays) {
        removeCgroups(cgroup).catch((error) =>
          stderrLog.write({ level: "error", event: "a restore that stood still goes on", error: described(error) }),
        );
      }
    });
    const { exitCode } = await this.#run(restore.id, "restore", RESTORE_MS, strays, script, [
      "restore",
      "--restore-detached",
      "--pidfile",
      pidFile,
      "--root",
      restore.root,
      "--cgroup-root",
      restore.cgroup,
      "--action-script",
      this.toolbox.actionScript,
      ...this.#places(restore.images, restore.folder, "restore.log", QUIET),
      ...restore.mounts.flatMap(({ inside, outside }) => ["--external", `mnt[${inside}]:${outside}`]),
    ]);
    if (exitCode === 0) return Number.parseInt(readFileSync(pidFile, "utf8"), 10);
    if (stalled && restore.shared && existsSync(join(restore.images, LOCKS_IMAGE))) throw lockedByAnother();
    if (stalled) throw new Fault(500, `CRIU stood still for ${RESTORE_STALLED_MS} ms while it restored ${restore.id}`);
    const logs = ["restore.log", `${STAGE_OF.restore}.log`].map((name) => readToolLog(join(restore.folder, name)));
    throw new Fault(500, `CRIU could not restore ${restore.id}: ${logs.join("\n").trim().slice(-2000)}`);
  }

  #places(images: string, work: string, log: string, verbosity: string): string[] {
    const folders = ["--images-dir", images, "--work-dir", work, "--log-file", log, verbosity];
    return [...folders, "--config", this.#config, "--file-locks", "--manage-cgroups=soft"];
  }

  /** What the script says goes to a file: CRIU has no ear for it. */
  #script(folder: string, action: ToolAction, commands: string): string {
    const path = join(folder, `${STAGE_OF[action]}.sh`);
    writeFileSync(path, `exec 2> '${join(folder, `${STAGE_OF[action]}.log`)}'\n${commands}\n`, { mode: 0o600 });
    return path;
  }

  /** `strays` are the cgroups of what a failed CRIU leaves, which would wait for it forever. */
  async #run(id: string, action: ToolAction, timeoutMs: number, strays: string[], script: string, args: string[]) {
    const place = freezerOf(toolCgroup(this.data, id, action));
    // CRIU puts nothing into trees without a controller: what it makes stays where it is itself there, and sees all
    // below that.
    const homes = action === "restore" ? namedTrees().map((tree) => join(tree, this.data.cgroup, id)) : [];
    for (const folder of [place, ...homes]) mkdirSync(folder, { recursive: true });
    const shield = action === "dump" ? `${SHIELD}; ${NO_SIGNAL_ON_LIMIT}; ` : TAKE_USUAL_SCORE + ORDINARY_NICENESS;
    const moves = [place, ...homes].map((folder) => `echo 0 > '${folder}/cgroup.procs' && `).join("");
    const enter = ["/bin/sh", "-c", `${shield}${moves}exec "$@"`, "sh"];
    const onExit = async (exitCode: number) => {
      if (exitCode !== 0) await Promise.all(strays.map((cgroup) => removeCgroups(cgroup)));
    };
    try {
      const path = `${this.toolbox.binFolder}:${MINIMAL_ENV.PATH}`;
      const env = { ...MINIMAL_ENV, PATH: path, [ACTION_SCRIPT_ENV]: script, [ACTION_STAGE_ENV]: STAGE_OF[action] };
      return await attempt([...enter, ...this.toolbox.criu, ...args], {
        timeoutMs,
        name: `CRIU ${action}`,
        env,
        onExit,
      });
    } finally {
      // Refused while something of it still runs; then the next start finds it.
      await rmdir(place).catch(() => undefined);
    }
  }
}

/**
 * After CRIU was killed: what it had its hand in ends within a moment. Throws when that was the sandbox, which can also
 * be when CRIU ended by itself: it leaves everything as it is when one of the processes is killed under its hands.
 */
async function lossOf(
  { id, pid, cgroup }: Dump,
  before: readonly number[],
  guests: readonly number[],
  exitCode: number,
): Promise<Fault | undefined> {
  await Bun.sleep(CRIU_AFTERMATH_MS);
  const after = existsSync(freezerOf(cgroup)) ? await processesBelow(freezerOf(cgroup)) : [];
  if (!after.includes(pid)) throw new Fault(404, `sandbox ${id} ended while CRIU was writing it down`);
  const gone = before.filter((each) => !after.includes(each));
  const wasKilled = exitCode >= SIGNALLED_MIN;
  // Others come and go as they like; a guest that is gone was killed under CRIU's hands, and is replaced by itself.
  if (!wasKilled && !gone.some((each) => guests.includes(each))) return undefined;
  const lost = wasKilled ? gone.length : gone.filter((each) => !guests.includes(each)).length;
  if (lost === 0) return undefined;
  const these = lost === 1 ? "one of its processes has" : `${lost} of its processes have`;
  const what = wasKilled
    ? "the tool that wrote this sandbox down"
    : "the guest of this sandbox, while it was written down,";
  return new Fault(503, `${what} was killed, and ${these} ended with it; the others go on`);
}

/** By its own word, which is enough to judge a loss by. */
function isGuest(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith(`${GUEST_MOUNT}/bin/guest`);
  } catch {
    return false;
  }
}

/** CRIU takes the locks of a sandbox again and waits for each, for as long as somebody else has it. */
function lockedByAnother(): Fault {
  return new Fault(
    422,
    "a process of this sandbox held a lock on a file of a volume that another sandbox seems to hold now. " +
      "Try again when it has let go, or memory: false starts this one from its disk",
  );
}

function killedTwice(): Fault {
  const message =
    "the tool that wrote this sandbox down was killed, twice; the sandbox runs on. Connections in it may hang";
  return new Fault(503, message);
}
