/**
 * A restic repository: content-defined chunks, each stored once, compressed, encrypted and checked by its digest. A
 * snapshot of restic exists only when all of its chunks are stored, so an interrupted backup changes no earlier one.
 *
 * The module src/backup copies the data of a server to a repository and back. It never serves requests and never starts
 * or stops a sandbox.
 */
import { Fault } from "../contract/fault.ts";
import { attempt, MINIMAL_ENV, run } from "../system/command.ts";

/** Exit code of restic for a repository that does not exist. */
const NO_REPOSITORY = 10;
/** One word for all machines: restic compares a backup with the last one of the same host. */
const HOST = "sandlot";
/** Variables of restic and of the stores that it writes to. */
const PASSED_ON = /^(?:RESTIC_|AWS_|AZURE_|B2_|GOOGLE_|ST_|OS_|RCLONE_|HTTPS?_PROXY$|HOME$|TMPDIR$|SSH_AUTH_SOCK$)/;
const MIB = 1024 ** 2;

/** The words of restic's command line, an id and a path, then a command that reads the file with this path. */
const PIPE = 'set -o pipefail; "$1" "$2" "$3" "$4" dump "$5" "$6" | { shift 6; "$@"; }';

/** The password is not an argument: every process of the machine may read arguments. */
const PASSWORDS = ["RESTIC_PASSWORD", "RESTIC_PASSWORD_FILE", "RESTIC_PASSWORD_COMMAND"];

export interface Saved {
  /** The id of restic's snapshot. */
  id: string;
  readBytes: number;
  /** What was sent to the repository: compressed data that it did not have. */
  sentBytes: number;
}

interface Listed {
  id: string;
  time: string;
}

/** Throws Fault 400 for a target that restic does not know, or without a password. */
export function requireTarget(target: string, env: Readonly<Record<string, string | undefined>>): void {
  if (!target.startsWith("/") && !/^[a-z0-9]+:./.test(target)) {
    throw new Fault(
      400,
      `TARGET must be an absolute path or a restic repository such as s3:https://…, not "${target}"`,
    );
  }
  if (PASSWORDS.some((name) => env[name])) return;
  throw new Fault(
    400,
    "a backup is encrypted, and no password is set. FIX: write one to a file, keep a copy of it on another machine, and " +
      "set RESTIC_PASSWORD_FILE to the path of that file",
  );
}

export class Repository {
  readonly #env: Record<string, string>;

  constructor(
    readonly target: string,
    private readonly restic: readonly string[],
    cacheFolder: string,
    env: Readonly<Record<string, string | undefined>>,
  ) {
    const given = Object.entries(env).filter(([name]) => PASSED_ON.test(name));
    this.#env = {
      ...MINIMAL_ENV,
      RESTIC_CACHE_DIR: cacheFolder,
      ...Object.fromEntries(given.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))),
      RESTIC_REPOSITORY: target,
    };
  }

  /** Makes the repository unless it exists. */
  async open(): Promise<void> {
    if (!(await this.#exists())) await this.#do(["init"]);
  }

  /** Throws Fault 404 when there is no repository. */
  async require(): Promise<void> {
    if (!(await this.#exists())) throw new Fault(404, `there is no backup at ${this.target}`);
  }

  /** Saves a folder. A file counts as unchanged if its path, size and modification time are. */
  async save(folder: string, tag: string): Promise<Saved> {
    return await this.#saved(["--ignore-inode", "--ignore-ctime", "--tag", tag, folder]);
  }

  /** Saves the output of a command as one file; nothing, if the command fails. */
  async saveOutput(name: string, command: readonly string[], tag: string): Promise<Saved> {
    return await this.#saved(["--tag", tag, "--stdin-filename", name, "--stdin-from-command", "--", ...command]);
  }

  /** The newest snapshot with this tag, or the one with this id. */
  async find(tag: string, id: string | undefined): Promise<Listed | undefined> {
    if (id === undefined) return (await this.list(tag, ["--latest", "1"])).at(-1);
    return (await this.list(tag)).find((each) => each.id.startsWith(id));
  }

  async list(tag: string, options: readonly string[] = []): Promise<Listed[]> {
    const listed = JSON.parse(await this.#do(["snapshots", "--json", "--tag", tag, ...options])) as Listed[] | null;
    return (listed ?? []).map(({ id, time }) => ({ id, time }));
  }

  async text(id: string, path: string): Promise<string> {
    return await this.#do(["dump", id, path]);
  }

  async restore(id: string, folder: string, target: string, excluded: readonly string[]): Promise<void> {
    const options = excluded.flatMap((path) => ["--exclude", path]);
    await this.#do(["restore", `${id}:${folder}`, "--target", target, ...options]);
  }

  /** Passes a saved file to a command. */
  async pipe(id: string, path: string, command: readonly string[]): Promise<void> {
    await run(["bash", "-c", PIPE, "bash", ...this.restic, id, path, ...command], this.#options);
  }

  /** Reads everything and compares it with its digests. */
  async check(): Promise<void> {
    await this.#do(["check", "--read-data"]);
  }

  async #exists(): Promise<boolean> {
    const { exitCode, stderr } = await attempt([...this.restic, "--quiet", "cat", "config"], this.#options);
    if (exitCode === NO_REPOSITORY) return false;
    if (exitCode !== 0) throw this.#failed("open the repository", stderr);
    return true;
  }

  async #saved(words: readonly string[]): Promise<Saved> {
    const said = await this.#do(["backup", "--json", "--quiet", "--host", HOST, ...words]);
    const summary = said
      .trim()
      .split("\n")
      .flatMap((line) => (line.includes('"summary"') ? [JSON.parse(line)] : []))
      .at(-1);
    return {
      id: String(summary?.snapshot_id),
      readBytes: Number(summary?.total_bytes_processed),
      sentBytes: Number(summary?.data_added_packed),
    };
  }

  async #do(words: readonly string[]): Promise<string> {
    const { exitCode, stdout, stderr } = await attempt([...this.restic, ...words], this.#options);
    if (exitCode !== 0) throw this.#failed(words[0] ?? "", stderr || stdout);
    return stdout;
  }

  get #options() {
    return { timeoutMs: null, env: this.#env, name: "restic" } as const;
  }

  #failed(work: string, said: string): Fault {
    return new Fault(500, `restic could not ${work} at ${this.target}: ${said.trim().slice(-2000)}`);
  }
}

export function inMiB(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`;
}
