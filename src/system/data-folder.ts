/**
 * One server's places on the machine. The data folder is what lasts (store, disks); the run folder lies in memory, is
 * gone after a reboot and holds what only makes sense while processes run. Everything a server makes outside of them
 * (interfaces, nft table, cgroups) carries its tag, so that two servers live side by side and each reaps only its own.
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
import { Fault } from "../contract/fault.ts";
import { type FileLock, takeLock, waitForLock } from "./syscalls.ts";

const RUN_ROOT = "/run/sandlot";
const IDENTITY = "server.json";
/** In the run folder: whose it is. */
const DATA_NOTE = "data-folder";
const TAG_LENGTH = 4;
/** Each time another process had the lock, and removed its file. */
const LOCK_TRIES_MAX = 10_000;
const TAG_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";

export class DataFolder {
  readonly tag: string;

  /** Whether one was made here; the constructor makes one that is missing. */
  static isAt(path: string): boolean {
    return existsSync(join(path, IDENTITY));
  }

  constructor(readonly path: string) {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    // Tokens and disks of tenants are in here: for root alone, whatever the folder was before.
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
    if (takeLock(this.#lockFile) !== undefined) return;
    throw new Fault(
      409,
      `another server is running on the data folder ${this.path}. FIX: stop it, or give this one its own with SANDLOT_DATA`,
    );
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

  /** Made for the mapped root of a sandbox to pass through, not to look around. */
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

  /** Made by whoever uses runsc here. */
  get runscFolder(): string {
    return join(this.runFolder, "runsc");
  }

  get sandboxesFolder(): string {
    return sandboxesIn(this.runFolder);
  }

  get storeFile(): string {
    return join(this.path, "store.sqlite");
  }

  get keyFile(): string {
    return join(this.path, "api-key");
  }

  /** Uploaded files of template builds. */
  get blobsFolder(): string {
    return join(this.path, "blobs");
  }

  /** Signs links that open an upload. */
  get linkSecretFile(): string {
    return join(this.path, "link-secret");
  }

  /** The cgroup below which all sandboxes of this server are. */
  get cgroup(): string {
    return cgroupOfServer(this.tag);
  }
}

export function cgroupOfServer(tag: string): string {
  return `/sandlot/${tag}`;
}

/** Where the folders of sandboxes are in the run folder of a server. */
export function sandboxesIn(runFolder: string): string {
  return join(runFolder, "sandboxes");
}

/** For what all servers on this machine look at before they change it. Held for a moment, and gone then. */
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

/** The same for who need not do it if another does so already. */
export function takeLockOfAllServers(what: string): Disposable | undefined {
  const lock = takeLock(lockFile(what));
  if (lock?.isCurrent()) return removedAfter(lock);
  // Whoever had it has removed it just now.
  lock?.[Symbol.dispose]();
  return undefined;
}

/** A file in memory that belongs to all servers. */
export function noteOfAllServers(name: string): string {
  return join(RUN_ROOT, name);
}

function lockFile(what: string): string {
  return join(RUN_ROOT, `${what}.lock`);
}

/** The file goes before the lock: who waits for it finds that it holds a lock of nothing, and takes a new one. */
function removedAfter(lock: FileLock): Disposable {
  return {
    [Symbol.dispose]() {
      rmSync(lock.path, { force: true });
      lock[Symbol.dispose]();
    },
  };
}

/** Whether there is a run folder of a server with this tag. */
export function hasRunFolder(tag: string): boolean {
  return existsSync(join(RUN_ROOT, tag));
}

/** Run folders of the other servers on this machine. Some may be going just now. */
export function otherServers(tag: string): string[] {
  if (!existsSync(RUN_ROOT)) return [];
  return readdirSync(RUN_ROOT)
    .filter((name) => name !== tag && name.length === TAG_LENGTH)
    .map((name) => join(RUN_ROOT, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory());
}

/** The data folder of the server with this run folder. Undefined: it did not say so, as earlier versions. */
export function dataFolderOf(runFolder: string): string | undefined {
  return readText(join(runFolder, DATA_NOTE));
}

/** Whether the data folder of the server with this tag is there. Who cannot be looked at is not gone. */
export function isServerAt(path: string, tag: string): boolean {
  if (!isAbsolute(path)) return false;
  try {
    return readText(join(path, IDENTITY))?.includes(JSON.stringify(tag)) ?? false;
  } catch {
    return true;
  }
}

/** Undefined if there is none, also if it went just now. */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** In one step, and once: of two who come to a new folder at the same moment, one finds what the other has written. */
function nameServer(identity: string): void {
  const written = `${identity}.${crypto.randomUUID()}`;
  writeFileSync(written, `${JSON.stringify({ tag: randomTag() })}\n`, { mode: 0o600 });
  try {
    linkSync(written, identity);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    rmSync(written);
  }
}

function randomTag(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(TAG_LENGTH));
  return [...bytes].map((byte) => TAG_LETTERS[byte % TAG_LETTERS.length]).join("");
}
