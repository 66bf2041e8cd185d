/** Edits /etc/passwd, group, shadow and gshadow without programs of the image, but with their lock files. */
import {
  chmodSync,
  chownSync,
  linkSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";

/** How long to wait for another program's lock, and how often to check it. */
const ACCOUNT_LOCK_MS = 15_000;
const ACCOUNT_LOCK_EVERY_MS = 50;
const ACCOUNT_FILE_MAX_BYTES = 16 * 1024 * 1024;

/** Lock order, with the mode of a newly created file. */
const FILES = { passwd: 0o644, group: 0o644, shadow: 0o640, gshadow: 0o640 } as const;
type FileName = keyof typeof FILES;

/** Fields of each line; a line that is not a record has one field. */
type Records = string[][];

export class AccountFiles implements Disposable {
  readonly #locked: string[] = [];
  readonly #records = new Map<FileName, Records | undefined>();

  private constructor(private readonly etc: string) {}

  /** Waits while another program holds a lock. */
  static async lock(etc = "/etc"): Promise<AccountFiles> {
    const files = new AccountFiles(etc);
    try {
      for (const name of Object.keys(FILES)) {
        await takeLock(`${etc}/${name}.lock`);
        files.#locked.push(`${etc}/${name}.lock`);
      }
      return files;
    } catch (thrown) {
      files[Symbol.dispose]();
      throw thrown;
    }
  }

  [Symbol.dispose](): void {
    for (const lock of this.#locked.reverse()) rmSync(lock, { force: true });
  }

  /** Undefined if the image has no such file. */
  read(name: FileName): Records | undefined {
    if (!this.#records.has(name)) this.#records.set(name, readRecords(`${this.etc}/${name}`));
    return this.#records.get(name);
  }

  find(name: FileName, record: string): string[] | undefined {
    return this.read(name)?.find(([first]) => first === record);
  }

  /** Creates the file if the image has none. */
  append(name: FileName, fields: readonly string[]): void {
    const records = this.read(name) ?? [];
    this.#replace(name, [...records, [...fields]]);
  }

  /** The first id in the range that neither passwd nor group uses. */
  freeId(first: number, last: number): number {
    const taken = new Set([...(this.read("passwd") ?? []), ...(this.read("group") ?? [])].map((fields) => fields[2]));
    for (let id = first; id <= last; id++) if (!taken.has(String(id))) return id;
    throw new Fault(400, `every id from ${first} to ${last} belongs to an account or a group`);
  }

  #replace(name: FileName, records: Records): void {
    const path = `${this.etc}/${name}`;
    const fresh = `${path}.sandlot-new`;
    const kept = statSync(path, { throwIfNoEntry: false });
    writeFileSync(fresh, records.map((fields) => `${fields.join(":")}\n`).join(""), { mode: 0o600 });
    chmodSync(fresh, kept === undefined ? FILES[name] : kept.mode & 0o777);
    if (kept !== undefined) chownSync(fresh, kept.uid, kept.gid);
    renameSync(fresh, path);
    this.#records.set(name, records);
  }
}

function readRecords(path: string): Records | undefined {
  let text: string;
  try {
    const { size } = statSync(path);
    if (size > ACCOUNT_FILE_MAX_BYTES) {
      throw new Fault(400, `${path} has ${size} bytes; up to ${ACCOUNT_FILE_MAX_BYTES} are read`);
    }
    text = readFileSync(path, "utf8");
  } catch (thrown) {
    if (systemCode(thrown) === "ENOENT") return undefined;
    throw thrown;
  }
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line) => line.split(":"));
}

/** Locks like the shadow tools: links a file with its process id into place. Stale if that no longer runs. */
async function takeLock(path: string): Promise<void> {
  const own = `${path.slice(0, -".lock".length)}.${process.pid}`;
  writeFileSync(own, `${process.pid}\0`, { mode: 0o600 });
  const deadline = performance.now() + ACCOUNT_LOCK_MS;
  try {
    for (;;) {
      try {
        linkSync(own, path);
        return;
      } catch (thrown) {
        if (systemCode(thrown) !== "EEXIST") throw thrown;
      }
      if (isVoid(path)) unlinkSync(path);
      else if (performance.now() > deadline)
        throw new Fault(503, `another program holds ${path}; end it, or remove it`);
      else await Bun.sleep(ACCOUNT_LOCK_EVERY_MS);
    }
  } finally {
    rmSync(own, { force: true });
  }
}

function isVoid(lock: string): boolean {
  try {
    const pid = Number.parseInt(readFileSync(lock, "utf8"), 10);
    if (!(pid > 0)) return true;
    process.kill(pid, 0);
    return false;
  } catch (thrown) {
    return systemCode(thrown) === "ESRCH";
  }
}
