/** The commands of crun: it makes sandboxes from a bundle, starts and removes them. */
import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { scaled } from "../../../base/time-factor.ts";
import { Fault } from "../../../contract/fault.ts";
import { attempt, cannotStart, MINIMAL_ENV, noteProcess, toolSession } from "../../../system/command.ts";
import { overloaded } from "../../../system/overload.ts";
import { startTicks } from "../../../system/start-ticks.ts";
import type { Toolbox } from "../../../system/toolbox.ts";
import { endedBefore, removeEnded, startMade } from "./crun-state.ts";

/** How long crun may take to make or start a sandbox, and to remove one. */
const CRUN_START_MS = scaled(20_000);
/** How often it is seen whether what crun starts is still there. */
const CRUN_START_LOOK_EVERY_MS = 50;
const CRUN_REMOVE_MS = scaled(20_000);
/** crun may have been killed the first time. */
const CRUN_REMOVE_TRIES_MAX = 2;

export class Crun {
  readonly #command: string[];
  readonly #env: Record<string, string>;

  /** `stateFolder` is where crun keeps its own records; one for each server, so that servers never see each other's. */
  constructor(
    toolbox: Pick<Toolbox, "crun" | "binFolder">,
    readonly stateFolder: string,
    readonly startMs = CRUN_START_MS,
  ) {
    this.#command = [...toolbox.crun, "--root", stateFolder];
    this.#env = { ...MINIMAL_ENV, PATH: `${toolbox.binFolder}:${MINIMAL_ENV.PATH}` };
  }

  /** What is described in `bundle`/config.json, stopped before its first process runs; answers the pid of that. */
  async create(id: string, bundle: string): Promise<number> {
    const pidFile = join(bundle, "pid");
    const result = await this.#silent(["create", "--bundle", bundle, "--pid-file", pidFile, id], bundle, this.startMs);
    if (result.exitCode !== 0) throw new Fault(500, `crun create ended with ${result.exitCode}: ${result.stderr}`);
    // In memory, and a few bytes: another thread would take longer to be asked.
    return Number.parseInt(readFileSync(pidFile, "utf8"), 10);
  }

  async start(id: string, pid: number): Promise<void> {
    if (!startMade(join(this.stateFolder, id), id)) await this.#startByTool(id, pid);
  }

  /**
   * crun waits for the first process to take its word, and waits on when that has just ended; so somebody has to look
   * whether it is still there.
   */
  async #startByTool(id: string, pid: number): Promise<void> {
    const ended = new AbortController();
    const watch = setInterval(() => {
      if (hasEnded(pid)) ended.abort();
    }, CRUN_START_LOOK_EVERY_MS);
    try {
      const options = { timeoutMs: this.startMs, name: "crun start", env: this.#env, signal: ended.signal };
      const { exitCode, stderr } = await attempt([...this.#command, "start", id], options);
      if (ended.signal.aborted) throw endedBefore(id);
      if (exitCode !== 0) throw new Fault(500, `crun start ended with ${exitCode}: ${stderr}`);
    } finally {
      clearInterval(watch);
    }
  }

  async remove(id: string): Promise<void> {
    // One that CRIU has made was never crun's.
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
    // crun keeps a cache of compiled filters beside its containers, under a name that no container may have.
    return (await readdir(this.stateFolder)).filter((name) => !name.startsWith("."));
  }

  /**
   * A sandbox keeps the standard streams that `create` had; a checkpoint can only hold /dev/null. So errors go through
   * a log file rather than a pipe.
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
    // One that had ended in time, of which this server hears late, was not killed.
    if (timedOut && child.signalCode !== null) throw overloaded(`${name} did not end within ${timeoutMs} ms`);
    const stderr = exitCode === 0 ? "" : await readFile(log, "utf8").catch(() => "(no log)");
    return { exitCode, stdout: "", stderr };
  }
}

/** Who cannot be looked at has not. */
function hasEnded(pid: number): boolean {
  try {
    return startTicks(pid) === undefined;
  } catch {
    return false;
  }
}

function startedOr<Child>(name: string, start: () => Child): Child {
  try {
    return start();
  } catch (cause) {
    throw cannotStart(name, cause);
  }
}
