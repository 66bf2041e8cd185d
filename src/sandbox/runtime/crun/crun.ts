/** Calls crun to create sandboxes from a bundle, and to start and remove them. */
import { closeSync, constants, openSync, readFileSync, unlinkSync, writeSync } from "node:fs";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { scaled } from "../../../base/time-factor.ts";
import { Fault } from "../../../contract/fault.ts";
import { attempt, cannotStart, MINIMAL_ENV, noteProcess, toolSession } from "../../../system/command.ts";
import { overloaded } from "../../../system/overload.ts";
import { startTicks } from "../../../system/start-ticks.ts";
import type { Toolbox } from "../../../system/toolbox.ts";

/** Timeout for crun to create a sandbox. */
const CRUN_START_MS = scaled(20_000);
const CRUN_REMOVE_MS = scaled(20_000);
/** crun may be killed during the first try. */
const CRUN_REMOVE_TRIES_MAX = 2;

/** Files in crun's state folder of a container. */
const START_FIFO = "exec.fifo";
const STATUS_FILE = "status";

export class Crun {
  readonly #command: string[];
  readonly #env: Record<string, string>;

  /** `stateFolder` holds crun's own records; each server has its own. */
  constructor(
    toolbox: Pick<Toolbox, "crun" | "binFolder">,
    readonly stateFolder: string,
    readonly startMs = CRUN_START_MS,
  ) {
    this.#command = [...toolbox.crun, "--root", stateFolder];
    this.#env = { ...MINIMAL_ENV, PATH: `${toolbox.binFolder}:${MINIMAL_ENV.PATH}` };
  }

  /**
   * Creates the container of `bundle`/config.json, stopped before its first process runs; returns that process's pid.
   */
  async create(id: string, bundle: string): Promise<number> {
    const pidFile = join(bundle, "pid");
    const result = await this.#silent(["create", "--bundle", bundle, "--pid-file", pidFile, id], bundle, this.startMs);
    if (result.exitCode !== 0) throw new Fault(500, `crun create ended with ${result.exitCode}: ${result.stderr}`);
    // Synchronous: the file is tiny and in memory, and a thread switch would take longer.
    return Number.parseInt(readFileSync(pidFile, "utf8"), 10);
  }

  /** By the FIFO on which the first process waits: crun would read, check and parse for milliseconds before. */
  start(id: string): void {
    const path = join(this.stateFolder, id, START_FIFO);
    let fifo: number | undefined;
    try {
      fifo = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
      // Removed first: while it exists, crun considers the container not started.
      unlinkSync(path);
      writeSync(fifo, "\0");
    } catch (cause) {
      const hasEnded = ["ENOENT", "ENXIO", "EPIPE"].includes((cause as NodeJS.ErrnoException).code ?? "");
      throw hasEnded ? new Fault(500, `the first process of ${id} ended before it was started`, { cause }) : cause;
    } finally {
      if (fifo !== undefined) closeSync(fifo);
    }
  }

  async remove(id: string): Promise<void> {
    // crun has no record of a sandbox that CRIU restored.
    if (!(await this.list()).includes(id)) return;
    if (await removeEnded(join(this.stateFolder, id))) return;
    let said = "";
    for (let tries = 0; tries < CRUN_REMOVE_TRIES_MAX; tries++) {
      const result = await this.#silent(["delete", "--force", id], undefined, CRUN_REMOVE_MS);
      if (result.exitCode === 0 || !(await this.list()).includes(id)) return;
      said = result.stderr;
    }
    throw new Fault(500, `crun could not remove ${id}: ${said}`);
  }

  async list(): Promise<string[]> {
    // Names with a leading dot are not containers: crun keeps a cache of compiled filters there.
    return (await readdir(this.stateFolder)).filter((name) => !name.startsWith("."));
  }

  /**
   * A sandbox keeps the standard streams that `create` had, and a checkpoint can only hold /dev/null. So errors go to a
   * log file rather than a pipe.
   */
  async #silent(args: string[], bundle: string | undefined, timeoutMs: number) {
    const name = `crun ${args[0]}`;
    if (bundle === undefined) return await attempt([...this.#command, ...args], { timeoutMs, name, env: this.#env });
    const log = join(bundle, "crun.log");
    const stdio = { stdin: "ignore", stdout: "ignore", stderr: "ignore" } as const;
    const child = startedOr(name, () =>
      Bun.spawn([...this.#command, "--log", log, ...args], { ...stdio, env: this.#env, ...toolSession() }),
    );
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      child.kill("SIGKILL");
    }, timeoutMs);
    const exitCode = await child.exited.finally(() => clearTimeout(timer));
    noteProcess(child);
    // A process that ended in time is not an error, even if this server notices late.
    if (timedOut && child.signalCode !== null) throw overloaded(`${name} did not end within ${timeoutMs} ms`);
    const stderr = exitCode === 0 ? "" : await readFile(log, "utf8").catch(() => "(no log)");
    return { exitCode, stdout: "", stderr };
  }
}

/**
 * Removes the state of a container whose first process, and with it all others, has ended. The host itself removes the
 * cgroup. False: the container runs, or its state is unknown.
 */
async function removeEnded(folder: string): Promise<boolean> {
  const first = await firstProcessOf(folder);
  if (first === undefined || runs(first)) return false;
  await rm(folder, { recursive: true, force: true });
  return true;
}

interface FirstProcess {
  pid: number;
  startTicks: string;
}

/** Undefined: crun has not written the file, or not completely. */
async function firstProcessOf(folder: string): Promise<FirstProcess | undefined> {
  try {
    const status: unknown = JSON.parse(await readFile(join(folder, STATUS_FILE), "utf8"));
    const { pid, "process-start-time": ticks } = (status ?? {}) as Record<string, unknown>;
    return Number.isInteger(pid) && Number.isInteger(ticks) && Number(pid) > 0 && Number(ticks) > 0
      ? { pid: Number(pid), startTicks: String(ticks) }
      : undefined;
  } catch {
    return undefined;
  }
}

/** True if the process cannot be examined. */
function runs(first: FirstProcess): boolean {
  try {
    return startTicks(first.pid) === first.startTicks;
  } catch {
    return true;
  }
}

function startedOr<Child>(name: string, start: () => Child): Child {
  try {
    return start();
  } catch (cause) {
    throw cannotStart(name, cause);
  }
}
