/** Calls crun to create sandboxes from a bundle, and to start and remove them. */
import { closeSync, constants, openSync, readFileSync, unlinkSync, writeSync } from "node:fs";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../../../base/system-code.ts";
import { scaled } from "../../../base/time-factor.ts";
import { Fault } from "../../../contract/fault.ts";
import { attempt, MINIMAL_ENV } from "../../../system/command.ts";
import { startTicks } from "../../../system/start-ticks.ts";
import type { Toolbox } from "../../../system/toolbox.ts";

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
   * Creates the container of `bundle`/config.json, stopped before its first process runs; returns that process's pid. A
   * sandbox keeps the standard streams that crun had, and a checkpoint can only hold /dev/null. So errors go to a log
   * file rather than a pipe. `prefix` is a command that starts crun and becomes it.
   */
  async create(id: string, bundle: string, prefix: readonly string[] = []): Promise<number> {
    const [pidFile, log] = [join(bundle, "pid"), join(bundle, "crun.log")];
    const crun = [...prefix, ...this.#command];
    const command = [...crun, "--log", log, "create", "--bundle", bundle, "--pid-file", pidFile, id];
    const options = { timeoutMs: this.startMs, name: "crun create", env: this.#env, silent: true };
    const { exitCode } = await attempt(command, options);
    if (exitCode !== 0) {
      const output = await readFile(log, "utf8").catch(() => "(no log)");
      throw new Fault(500, `crun create ended with ${exitCode}: ${output}`);
    }
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
      const hasEnded = ["ENOENT", "ENXIO", "EPIPE"].includes(systemCode(cause));
      throw hasEnded ? new Fault(500, `the first process of ${id} ended before it was started`, { cause }) : cause;
    } finally {
      if (fifo !== undefined) closeSync(fifo);
    }
  }

  async remove(id: string): Promise<void> {
    // crun has no record of a sandbox that CRIU restored.
    if (!(await this.list()).includes(id)) return;
    const folder = join(this.stateFolder, id);
    // The host itself removes the cgroup.
    if (await hasEnded(folder)) return await rm(folder, { recursive: true, force: true });
    let output = "";
    for (let tries = 0; tries < CRUN_REMOVE_TRIES_MAX; tries++) {
      const options = { timeoutMs: CRUN_REMOVE_MS, name: "crun delete", env: this.#env };
      const result = await attempt([...this.#command, "delete", "--force", id], options);
      if (result.exitCode === 0 || !(await this.list()).includes(id)) return;
      output = result.stderr;
    }
    throw new Fault(500, `crun could not remove ${id}: ${output}`);
  }

  async list(): Promise<string[]> {
    // Names with a leading dot are not containers: crun keeps a cache of compiled filters there.
    return (await readdir(this.stateFolder)).filter((name) => !name.startsWith("."));
  }
}

/** Whether the container's first process, and with it all others, has ended. False: it runs, or that is unknown. */
async function hasEnded(folder: string): Promise<boolean> {
  try {
    const { pid, "process-start-time": ticks } = JSON.parse(await readFile(join(folder, STATUS_FILE), "utf8"));
    return pid > 0 && ticks > 0 && startTicks(pid) !== String(ticks);
  } catch {
    // crun has not written the file, or not completely; or the process cannot be examined.
    return false;
  }
}
