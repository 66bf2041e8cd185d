/**
 * The folders of one server. The data folder lasts (store, disks). The run folder is in memory, is gone after a reboot,
 * and holds what is only valid while processes run. Everything else that a server makes (interfaces, nft table,
 * cgroups) carries its tag, so that servers coexist and each cleans up only its own.
 */
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { isAbsolute, join } from "node:path";
import { systemCode } from "../base/system-code.ts";
import { Fault } from "../contract/fault.ts";
import { ID_LETTERS } from "../contract/ids.ts";
import { type FileLock, takeLock, waitForLock } from "./syscalls.ts";

const RUN_ROOT = "/run/sandlot";
const IDENTITY = "server.json";
/** File in the run folder that names the data folder. */
const DATA_NOTE = "data-folder";
const TAG_LENGTH = 4;
/** Each retry means that another process had the lock and removed its file. */
const LOCK_TRIES_MAX = 10_000;

export class DataFolder {
  readonly tag: string;

  /** Whether a data folder exists here; the constructor makes a missing one. */
  static isAt(path: string): boolean {
    return existsSync(join(path, IDENTITY));
  }

  constructor(readonly path: string) {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    // Contains tokens and disks of tenants, so only root may enter, even if the folder existed before.
    chmodSync(path, 0o700);
    const identity = join(path, IDENTITY);
    if (!existsSync(identity)) nameServer(identity);
    const { tag } = JSON.parse(readFileSync(identity, "utf8")) as { tag?: unknown };
    if (typeof tag !== "string" || !/^[a-z0-9]{4}$/.test(tag)) {
      throw new Fault(
        500,
        `${identity} is damaged: "tag" must be four of [a-z0-9]. FIX: restore it, or remove the folder`,
      );
    }
    this.tag = tag;
  }

  /** Holds the folder until this process ends. */
  lock(): void {
    requireRestored(this.path);
    if (takeLock(this.#lockFile) !== undefined) return;
    throw new Fault(
      409,
      `another server is running on the data folder ${this.path}. FIX: stop it, or give this one its own with SANDLOT_DATA`,
    );
  }

  /**
   * Held by a backup while it reads, and by the server while it removes images and guests. Undefined: the other has it.
   */
  lockImages(): Disposable | undefined {
    return takeLock(join(this.path, "backup.lock"));
  }

  /** True while a server holds the folder. */
  get inUse(): boolean {
    using lock = takeLock(this.#lockFile);
    return lock === undefined;
  }

  get #lockFile(): string {
    return join(this.path, "lock");
  }

  get runFolder(): string {
    return join(RUN_ROOT, this.tag);
  }

  /** The mapped root of a sandbox may pass through these folders, but not list them. */
  makeRunFolder(): void {
    mkdirSync(RUN_ROOT, { recursive: true, mode: 0o711 });
    for (const folder of [this.runFolder, this.crunFolder, this.sandboxesFolder]) {
      mkdirSync(folder, { recursive: true, mode: 0o711 });
    }
    writeFileSync(join(this.runFolder, DATA_NOTE), this.path, { mode: 0o600 });
  }

  get crunFolder(): string {
    return join(this.runFolder, "crun");
  }

  /** Made on the first use of runsc. */
  get runscFolder(): string {
    return join(this.runFolder, "runsc");
  }

  get sandboxesFolder(): string {
    return sandboxesIn(this.runFolder);
  }

  /** The socket of the operator's commands, in a folder that only root may enter. */
  get adminSocket(): string {
    return join(this.runFolder, "admin", "socket");
  }

  get storeFile(): string {
    return join(this.path, "store.sqlite");
  }

  /** What belongs to this folder in another database than `storeFile`. */
  get storeNote(): string {
    return join(this.path, "store.json");
  }

  get keyFile(): string {
    return join(this.path, "api-key");
  }

  /** What is known of the images that were fetched from registries. */
  get fetchedNotesFolder(): string {
    return join(this.path, "fetched-images");
  }

  /** Images of volumes and their facts; each volume has a folder. */
  get volumesFolder(): string {
    return join(this.path, "volumes");
  }

  /** Cached blobs from registries. */
  get registryBlobsFolder(): string {
    return join(this.path, "registry-blobs");
  }

  /** Uploaded files of template builds. */
  get blobsFolder(): string {
    return join(this.path, "blobs");
  }

  /** Key that signs upload links. */
  get linkSecretFile(): string {
    return join(this.path, "link-secret");
  }

  /** The parent cgroup of all sandboxes of this server. */
  get cgroup(): string {
    return cgroupOfServer(this.tag);
  }
}

/** File in a data folder whose restore from a backup has not finished. */
export function restoreNote(dataFolder: string): string {
  return join(dataFolder, "restore-unfinished");
}

function requireRestored(dataFolder: string): void {
  if (!existsSync(restoreNote(dataFolder))) return;
  throw new Fault(
    409,
    `the restore of a backup into ${dataFolder} has not finished. FIX: let it finish, or remove the folder and restore again`,
  );
}

export function cgroupOfServer(tag: string): string {
  return `/sandlot/${tag}`;
}

/** The folder of all sandboxes' folders in a server's run folder. */
export function sandboxesIn(runFolder: string): string {
  return join(runFolder, "sandboxes");
}

/** A short lock for state that all servers on this machine share. The lock file is removed afterwards. */
export function lockOfAllServers(what: string): Disposable {
  mkdirSync(RUN_ROOT, { recursive: true, mode: 0o711 });
  const path = lockFile(what);
  for (let tries = 0; tries < LOCK_TRIES_MAX; tries++) {
    const lock = waitForLock(path);
    if (lock.isCurrent()) return removedAfter(lock);
    lock[Symbol.dispose]();
  }
  throw new Fault(503, `${path} could not be locked: others took it ${LOCK_TRIES_MAX} times`);
}

/** Like `lockOfAllServers`, but undefined when another process has the lock and does the work. */
export function takeLockOfAllServers(what: string): Disposable | undefined {
  const lock = takeLock(lockFile(what));
  if (lock?.isCurrent()) return removedAfter(lock);
  // The previous holder has just removed the file.
  lock?.[Symbol.dispose]();
  return undefined;
}

/** A file in memory that all servers share. */
export function noteOfAllServers(name: string): string {
  return join(RUN_ROOT, name);
}

function lockFile(what: string): string {
  return join(RUN_ROOT, `${what}.lock`);
}

/** Removed while locked: a waiting process then finds that its lock is stale, and takes a new one. */
function removedAfter(lock: FileLock): Disposable {
  return {
    [Symbol.dispose]() {
      rmSync(lock.path, { force: true });
      lock[Symbol.dispose]();
    },
  };
}

export function hasRunFolder(tag: string): boolean {
  return existsSync(join(RUN_ROOT, tag));
}

/** Run folders of the other servers on this machine. Some may be disappearing. */
export function otherServers(tag: string): string[] {
  if (!existsSync(RUN_ROOT)) return [];
  return readdirSync(RUN_ROOT)
    .filter((name) => name !== tag && name.length === TAG_LENGTH)
    .map((name) => join(RUN_ROOT, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory());
}

/** The data folder of the server with this run folder. Undefined: an earlier version, which did not record it. */
export function dataFolderOf(runFolder: string): string | undefined {
  return readText(join(runFolder, DATA_NOTE));
}

/** Whether the data folder of the server with this tag exists. True if it cannot be examined. */
export function isServerAt(path: string, tag: string): boolean {
  if (!isAbsolute(path)) return false;
  try {
    return readText(join(path, IDENTITY))?.includes(JSON.stringify(tag)) ?? false;
  } catch {
    return true;
  }
}

/** Undefined if the file does not exist, or was just removed. */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Atomic: of two processes that start on a new folder at once, one finds the identity that the other has written. */
function nameServer(identity: string): void {
  const written = `${identity}.${crypto.randomUUID()}`;
  writeFileSync(written, `${JSON.stringify({ tag: randomTag() })}\n`, { mode: 0o600 });
  try {
    linkSync(written, identity);
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error;
  } finally {
    rmSync(written);
  }
}

function randomTag(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(TAG_LENGTH));
  return [...bytes].map((byte) => ID_LETTERS[byte % ID_LETTERS.length]).join("");
}
