/**
 * The mount namespace in which one server does all its mounting. The machine's own mount table stays unchanged: only
 * the server sees its mounts, and they disappear with the namespace.
 *
 * A file in the run folder pins the namespace, so that a restarted server enters the same one. On machines with the
 * hybrid cgroup layout, crun refuses to work while the unified hierarchy is mounted beside the others; in this
 * namespace it is not mounted.
 */
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { attempt, run } from "../command.ts";
import type { DataFolder } from "../data-folder.ts";
import { detachMount, replaceProcess } from "../syscalls.ts";

const UNPIN_TRIES = 5;
const HYBRID_UNIFIED = "/sys/fs/cgroup/unified";

export class MountNamespace {
  readonly #folder: string;
  readonly #pin: string;
  readonly #number: string;

  constructor(data: Pick<DataFolder, "runFolder">) {
    // These names on disk must not change: a restarted server enters the namespace of the previous one.
    this.#folder = join(data.runFolder, "world");
    this.#pin = join(this.#folder, "mnt");
    this.#number = join(data.runFolder, "world-number");
  }

  /** True in a process that runs inside. The pin is not visible from there, so its inode number is kept in a file. */
  get entered(): boolean {
    return existsSync(this.#number) && Number(readFileSync(this.#number, "utf8")) === statSync("/proc/self/ns/mnt").ino;
  }

  get exists(): boolean {
    return existsSync(this.#pin) && isMountPoint(this.#pin);
  }

  async make(): Promise<void> {
    if (this.exists) return;
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    // A namespace can only be pinned below a private mount.
    if (!isMountPoint(this.#folder)) {
      await run(["mount", "--bind", this.#folder, this.#folder]);
      await run(["mount", "--make-private", this.#folder]);
    }
    writeFileSync(this.#pin, "");
    await this.#makePinned();
    writeFileSync(this.#number, String(statSync(this.#pin).ino));
    if (isMountPoint(HYBRID_UNIFIED)) await run([...this.enterCommand, "umount", HYBRID_UNIFIED]);
  }

  /**
   * To prevent loops, the kernel only pins a namespace with a higher number, but it assigns numbers in batches per
   * processor. If this process is itself in a separate namespace, only some processors have a number that is high
   * enough.
   */
  async #makePinned(): Promise<void> {
    const make = ["unshare", `--mount=${this.#pin}`, "--propagation=slave", "true"];
    const first = await attempt(make);
    if (first.exitCode === 0) return;
    for (let processor = 0; processor < availableParallelism(); processor++) {
      if ((await attempt(["taskset", "--cpu-list", String(processor), ...make])).exitCode === 0) return;
    }
    throw new Fault(500, `cannot make a mount namespace that lasts: ${first.stderr.trim()}`);
  }

  get enterCommand(): string[] {
    return ["nsenter", `--mount=${this.#pin}`, "--"];
  }

  /** Replaces this process by Bun with these arguments, inside, and in a folder that only root can change. */
  continueInside(args: readonly string[], env: Record<string, string>): never {
    const [name = "", ...enter] = this.enterCommand;
    const nsenter = Bun.which(name);
    if (nsenter === null) throw new Fault(500, "nsenter is missing. FIX: apt-get install util-linux");
    process.chdir("/");
    replaceProcess([nsenter, ...enter, process.execPath, ...args], env);
  }

  /** Uses the system call: umount may not find the mount while other processes mount and unmount. */
  remove(): void {
    for (const path of [this.#pin, this.#folder]) detachAll(path);
  }
}

/** Detaches every mount at a path or below it from this process's view. */
export function detachBelow(path: string): void {
  const below = mountPoints().filter((each) => each === path || each.startsWith(`${path}/`));
  for (const each of below.reverse()) detachAll(each);
}

/** Mounts may be stacked on one path. */
function detachAll(path: string): void {
  for (let tries = 0; tries < UNPIN_TRIES && isMountPoint(path); tries++) detachMount(path);
}

export function isMountPoint(path: string): boolean {
  return mountPoints().includes(path);
}

export function mountPoints(): string[] {
  return mountPointsIn(readFileSync("/proc/self/mountinfo", "utf8"));
}

/** The mount points in the `mountinfo` of any process. */
export function mountPointsIn(mountinfo: string): string[] {
  return mountinfo
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .map((path) => path.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))));
}
