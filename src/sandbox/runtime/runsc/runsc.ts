/** Calls runsc to create, start, checkpoint and restore sandboxes. */
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { rmdir } from "node:fs/promises";
import { join } from "node:path";
import { scaled } from "../../../base/time-factor.ts";
import { Fault } from "../../../contract/fault.ts";
import { freezerOf } from "../../../system/cgroup/freezer.ts";
import { attempt } from "../../../system/command.ts";
import type { DataFolder } from "../../../system/data-folder.ts";
import { TAKE_SANDBOX_SCORE } from "../../../system/oom-score.ts";
import { RESTORE_MS } from "../../limits.ts";
import { readToolLog } from "../tool-log.ts";
import { type ToolAction, toolCgroup } from "../tool-work.ts";

/** Timeouts for runsc to create a sandbox and to act on a running one; and how much of its output is kept. */
const RUNSC_MAKE_MS = scaled(30_000);
const RUNSC_SIGNAL_MS = scaled(20_000);
const RUNSC_SAID_MAX_CHARS = 4_000;

/**
 * Systrap works everywhere, without KVM. The network stack is runsc's own, on the interface that the host plugs in; a
 * checkpoint disconnects open connections. Files are only on the sandbox's disk.
 */
const FLAGS = [
  "--platform=systrap",
  "--network=sandbox",
  "--net-disconnect-ok",
  "--overlay2=none",
  "--cpu-num-from-quota",
];

/**
 * Runs runsc in the given cgroup with the OOM score of sandboxes, because its kernel holds their memory. runsc takes a
 * namespace for the host's own, and refuses to use it, when it finds a setting in /proc/sys/net that newer kernels show
 * in all namespaces; so that folder is hidden.
 */
const ENTER = `${TAKE_SANDBOX_SCORE}echo 0 > "$1" && shift && exec unshare --mount --propagation=slave /bin/sh -ec '
  mount -t tmpfs -o ro,size=4k none /proc/sys/net
  exec "$@"' sh "$@"`;

const STATE_FILE = /^(.+)_sandbox:\1\.state$/;

interface RunscState {
  status: string;
  /** The pid of the process that opens files for the sandbox. Its root is the sandbox's. */
  goferPid: number;
}

interface Call {
  id: string;
  args: readonly string[];
  /** Whether the call creates a sandbox or writes a checkpoint. */
  action: ToolAction;
  timeoutMs: number;
  /** The file for errors of a call that creates a sandbox, which keeps the standard streams of its creator. */
  log?: string;
}

export class Runsc {
  constructor(
    readonly binary: string,
    readonly data: DataFolder,
  ) {}

  /** The version that runsc reports; undefined when it does not run. */
  async version(): Promise<string | undefined> {
    const result = await attempt([this.binary, "--version"], { timeoutMs: RUNSC_SIGNAL_MS }).catch(() => undefined);
    return result?.exitCode === 0 ? /^runsc version (\S+)$/m.exec(result.stdout)?.[1] : undefined;
  }

  /** Creates the container of `bundle`/config.json, before its first process runs; returns the pid of its kernel. */
  async create(id: string, bundle: string): Promise<number> {
    const pidFile = join(bundle, "pid");
    const args = ["create", "--bundle", bundle, "--pid-file", pidFile, id];
    await this.#run({ id, args, action: "restore", timeoutMs: RUNSC_MAKE_MS, log: join(bundle, "runsc.log") });
    return Number.parseInt(readFileSync(pidFile, "utf8"), 10);
  }

  async start(id: string): Promise<void> {
    await this.#run({ id, args: ["start", id], action: "restore", timeoutMs: RUNSC_MAKE_MS });
  }

  async pause(id: string): Promise<void> {
    await this.#run({ id, args: ["pause", id], action: "dump", timeoutMs: RUNSC_SIGNAL_MS });
  }

  async resume(id: string): Promise<void> {
    await this.#run({ id, args: ["resume", id], action: "dump", timeoutMs: RUNSC_SIGNAL_MS });
  }

  /** Writes a paused sandbox, which stays paused. When it throws, the sandbox is as before. */
  async checkpoint(id: string, images: string, timeoutMs: number): Promise<void> {
    const how = ["--leave-running", "--compression=none", "--exclude-committed-zero-pages", "--image-path", images];
    await this.#run({ id, args: ["checkpoint", ...how, id], action: "dump", timeoutMs });
  }

  /** Restores into a container that was created and not started. */
  async restore(id: string, bundle: string, images: string): Promise<void> {
    const args = ["restore", "--detach", "--bundle", bundle, "--image-path", images, id];
    await this.#run({ id, args, action: "restore", timeoutMs: RESTORE_MS });
  }

  list(): string[] {
    return this.#files().flatMap((name) => STATE_FILE.exec(name)?.[1] ?? []);
  }

  /** Undefined: runsc has no record of it. */
  stateOf(id: string): RunscState | undefined {
    try {
      return JSON.parse(readFileSync(join(this.#folder, `${id}_sandbox:${id}.state`), "utf8")) as RunscState;
    } catch {
      return undefined;
    }
  }

  /** Removes the files of a sandbox without processes. */
  forget(id: string): void {
    const itsOwn = (name: string) => name.startsWith(`${id}_sandbox:`) || name === `runsc-${id}.sock`;
    for (const name of this.#files().filter(itsOwn)) rmSync(join(this.#folder, name), { force: true });
  }

  get #folder(): string {
    return this.data.runscFolder;
  }

  #files(): string[] {
    try {
      return readdirSync(this.#folder);
    } catch {
      // runsc was never used here.
      return [];
    }
  }

  async #run({ id, args, action, timeoutMs, log }: Call): Promise<void> {
    const name = `runsc ${args[0]}`;
    const place = freezerOf(toolCgroup(this.data, id, action));
    for (const folder of [place, this.#folder]) mkdirSync(folder, { recursive: true, mode: 0o711 });
    const logging = log === undefined ? [] : ["--log", log];
    const command = [this.binary, "--root", this.#folder, ...FLAGS, ...logging, ...args];
    const enter = ["/bin/sh", "-c", ENTER, "sh", join(place, "cgroup.procs")];
    // The reason comes first; a long dump of the sandbox's kernel may follow.
    let output = "";
    const onOutput = (text: string) => {
      if (output.length < RUNSC_SAID_MAX_CHARS) output = (output + text).slice(0, RUNSC_SAID_MAX_CHARS);
    };
    try {
      const { exitCode } = await attempt([...enter, ...command], {
        timeoutMs,
        name,
        onOutput,
        silent: log !== undefined,
      });
      if (exitCode === 0) return;
      const reason = log === undefined ? output : (await readToolLog(log)).slice(-RUNSC_SAID_MAX_CHARS);
      throw new Fault(500, `${name} ended with ${exitCode}: ${reason.trim()}`);
    } finally {
      // Fails while a process still runs there; the next server start then finds it.
      await rmdir(place).catch(() => undefined);
    }
  }
}
