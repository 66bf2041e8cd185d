/**
 * The mount namespace in which one server does all its mounting. The machine's own mount table stays as it was: what
 * the server mounts is seen by the server alone, and is gone when the namespace is.
 *
 * The namespace is pinned by a file in the run folder, so that a restarted server enters the same one. On machines with
 * the hybrid cgroup layout, crun refuses to work while the unified hierarchy is mounted beside the others; in here it
 * is not.
 */
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { attempt, run } from "../command.ts";
import type { DataFolder } from "../data-folder.ts";
import { detachMount } from "../syscalls.ts";

const UNPIN_TRIES = 5;
const HYBRID_UNIFIED = "/sys/fs/cgroup/unified";

export class MountNamespace {
  readonly #folder: string;
  readonly #pin: string;
  readonly #number: string;

  constructor(data: Pick<DataFolder, "runFolder">) {
    // Names on disk stay as they are: a server that is restarted enters the namespace of the one before.
    this.#folder = join(data.runFolder, "world");
    this.#pin = join(this.#folder, "mnt");
    this.#number = join(data.runFolder, "world-number");
  }

  /** True in a process that runs inside. The pin itself cannot be seen from there, so its number is kept in a file. */
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
   * The kernel only lets a namespace with a higher number be pinned, against loops, but hands numbers out in batches
   * for each processor. Where this process is itself in a namespace of its own, only some processors have a number that
   * is high enough.
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

  /** A command line prefix that runs what follows inside. */
  get enterCommand(): string[] {
    return ["nsenter", `--mount=${this.#pin}`, "--"];
  }

  /** By a call of our own: while others mount and unmount, umount may not find it. */
  remove(): void {
    for (const path of [this.#pin, this.#folder]) detachAll(path);
  }
}

/** Whatever is mounted at a path or below it goes out of this process's view. */
export function detachBelow(path: string): void {
  const below = mountPoints().filter((each) => each === path || each.startsWith(`${path}/`));
  for (const each of below.reverse()) detachAll(each);
}

/** One may lie on another. */
function detachAll(path: string): void {
  for (let tries = 0; tries < UNPIN_TRIES && isMountPoint(path); tries++) detachMount(path);
}

export function isMountPoint(path: string): boolean {
  return mountPoints().includes(path);
}

/** Every mount point this process sees. */
export function mountPoints(): string[] {
  return mountPointsIn(readFileSync("/proc/self/mountinfo", "utf8"));
}

/** The same of any process, of which this is `mountinfo`. */
export function mountPointsIn(mountinfo: string): string[] {
  return mountinfo
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .map((path) => path.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))));
}
