/**
 * A restic repository: content-defined chunks, each stored once, compressed, encrypted and checked by its digest. A
 * snapshot of restic exists only when all of its chunks are stored, so an interrupted backup changes no earlier one.
 */
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { MIB } from "../contract/limit.ts";
import { attempt, type CommandResult, MINIMAL_ENV } from "../system/command.ts";

/** Exit codes of restic: some files could not be read; the repository does not exist. */
const SOME_UNREADABLE = 3;
const NO_REPOSITORY = 10;
const EXISTS = "config file already exists";
/**
 * Timeout for opening a repository. restic itself retries for 15 minutes, even after a rejected key or a missing
 * bucket.
 */
const OPEN_MS = scaled(30_000);
/** restic reads ahead of the target by about a hundred mebibytes, which a slow line needs time for. */
const STALLED_MS = scaled(3_600_000);
/** Timeout of short commands. restic repeats a request that a target does not answer for about 20 minutes. */
const ANSWER_MS = scaled(1_800_000);
/** A count of `backup --json`, or a line of other commands, such as `[0:04] 50.00%  3 / 6 packs`. */
const PROGRESS = /"(files_done|bytes_done)":(\d+)[,}]|^\[[\d:]+\] (.+)$/gm;
const PROGRESS_PER_SECOND = "0.1";
/** One word for all machines: restic compares a backup with the last one of the same host. */
const HOST = "sandlot";
/** Variables of restic and of the stores that it writes to. */
const PASSED_ON = /^(?:RESTIC_|AWS_|AZURE_|B2_|GOOGLE_|ST_|OS_|RCLONE_|HTTPS?_PROXY$|HOME$|TMPDIR$|SSH_AUTH_SOCK$)/;
/** About a kilobyte for each snapshot; a backup has one for each volume, and three more. */
const LIST_MAX_BYTES = 256 * MIB;
/** Removal and verification wait for backups that write to the same repository. */
const LOCK_WAIT = "10m";
/** For short questions: a lock takes restic 0.2 seconds, and writes to the target. */
const NO_LOCK = "--no-lock";
/** Removes what restic has cached of targets that have not been used for 30 days. */
const CLEAN_UP = "--cleanup-cache";
/** Ids per `restic forget`: a command line holds a few thousand. */
const FORGET_TURN = 1000;

/** The number of words of restic's command line, these words, an id and a path, then a command that reads the file. */
const PIPE = `restic=("\${@:2:$1}"); shift $(($1 + 1)); "\${restic[@]}" dump "$1" "$2" | "\${@:3}"
  codes=("\${PIPESTATUS[@]}"); echo; echo "\${codes[@]}"`;
/** Without it restic would go on after `sandlot backup` was killed, while its files disappear. */
const END_TOGETHER = ["setpriv", "--pdeathsig", "KILL", "--"];

/** The password is not an argument: every process of the machine may read arguments. */
const PASSWORDS = ["RESTIC_PASSWORD", "RESTIC_PASSWORD_FILE", "RESTIC_PASSWORD_COMMAND"];

export interface Saved {
  /** The id of restic's snapshot. */
  id: string;
  /** What was sent to the repository: compressed data that it did not have. */
  sentBytes: number;
}

export interface Listed {
  id: string;
  time: string;
  tags: readonly string[];
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

/** Files to be saved could not be read. */
export class Unreadable extends Fault {
  constructor(
    message: string,
    readonly paths: readonly string[],
  ) {
    super(500, message);
  }
}

export class Repository {
  readonly #env: Record<string, string>;
  readonly #restic: readonly string[];

  constructor(
    readonly target: string,
    restic: readonly string[],
    cacheFolder: string,
    env: Readonly<Record<string, string | undefined>>,
    private readonly stalledMs = STALLED_MS,
    private readonly openMs = OPEN_MS,
  ) {
    this.#restic = [...END_TOGETHER, ...restic];
    const given = Object.entries(env).filter(([name]) => PASSED_ON.test(name));
    this.#env = {
      ...MINIMAL_ENV,
      RESTIC_CACHE_DIR: cacheFolder,
      ...Object.fromEntries(given.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))),
      RESTIC_REPOSITORY: target,
    };
  }

  /** Makes the repository unless it exists. Returns whether it is new. */
  async make(): Promise<boolean> {
    const { exitCode, stderr } = await this.#probe(["init"]);
    if (exitCode === 0) return true;
    if (!stderr.includes(EXISTS)) throw this.#failed("make a repository", stderr);
    await this.require();
    return false;
  }

  /** Throws Fault 404 when there is no repository. */
  async require(): Promise<void> {
    const { exitCode, stderr } = await this.#probe(["cat", "config", NO_LOCK, CLEAN_UP]);
    if (exitCode === 0) return;
    if (exitCode !== NO_REPOSITORY) throw this.#failed("open the repository", stderr);
    throw new Fault(
      404,
      `there is no repository at ${this.target}. FIX: mount its disk, or correct the target; ` +
        "`sandlot backup --init TARGET` makes a new repository",
    );
  }

  /**
   * Saves a folder. A file counts as unchanged if its path, size and modification time are. Throws Unreadable if files
   * cannot be read.
   */
  async save(folder: string, tags: readonly string[]): Promise<Saved> {
    return await this.#saved(["--ignore-inode", "--ignore-ctime", "--tag", tags.join(","), folder]);
  }

  /** Saves the output of a command as one file; nothing, if the command fails. */
  async saveOutput(name: string, command: readonly string[], tags: readonly string[]): Promise<Saved> {
    return await this.#saved([
      "--tag",
      tags.join(","),
      "--stdin-filename",
      name,
      "--stdin-from-command",
      "--",
      ...command,
    ]);
  }

  /** All snapshots, the oldest first. */
  async list(): Promise<Listed[]> {
    const output = await this.#run(["snapshots", "--json", NO_LOCK], LIST_MAX_BYTES);
    const listed = (JSON.parse(output) ?? []) as Partial<Listed>[];
    const snapshots = listed.map(({ id = "", time = "", tags = [] }) => ({ id, time, tags }));
    return snapshots.sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
  }

  async text(id: string, path: string): Promise<string> {
    return await this.#run(["dump", NO_LOCK, id, path], LIST_MAX_BYTES);
  }

  async restore(id: string, folder: string, target: string, excluded: readonly string[]): Promise<void> {
    const options = excluded.flatMap((path) => ["--exclude", path]);
    await this.#runLong(["restore", `${id}:${folder}`, "--target", target, ...options]);
  }

  /**
   * Passes a saved file to a command, and returns how the command ended. It has then read the whole file. Any output of
   * the command counts as progress.
   */
  async pipe(id: string, path: string, command: readonly string[]): Promise<{ exitCode: number; stderr: string }> {
    const words = [String(this.#restic.length), ...this.#restic, id, path, ...command];
    const argv = [...END_TOGETHER, "bash", "-c", PIPE, "bash", ...words];
    const { stdout, stderr } = await this.#untilStalled(argv, (progress) => progress.restart());
    const [ofRestic, exitCode] = (stdout.trim().split("\n").at(-1) ?? "").split(" ").map(Number);
    if (ofRestic !== 0 || exitCode === undefined) throw this.#failed(`read ${path} of ${id}`, stderr);
    return { exitCode, stderr };
  }

  /** Removes snapshots, and the data that only they have. */
  async forget(ids: readonly string[]): Promise<void> {
    for (let first = 0; first < ids.length; first += FORGET_TURN) {
      await this.#runExclusively(["forget", ...ids.slice(first, first + FORGET_TURN)]);
    }
    if (ids.length > 0) await this.#runExclusively(["prune"]);
  }

  /** Reads everything and compares it with its digests. */
  async check(): Promise<void> {
    await this.#runExclusively(["check", "--read-data"]);
  }

  /** Runs a short command. Throws Fault 504 when the target does not answer in time. */
  async #probe(words: readonly string[]): Promise<{ exitCode: number; stderr: string }> {
    const signal = AbortSignal.timeout(this.openMs);
    const result = await attempt([...this.#restic, ...words], { ...this.#options, signal });
    if (!signal.aborted) return result;
    const reason = result.stderr.trim().slice(-2000) || "nothing";
    throw new Fault(
      504,
      `${this.target} could not be opened within ${this.openMs / 1000} seconds. FIX: check its address and the ` +
        `credentials. restic said: ${reason}`,
    );
  }

  async #saved(words: readonly string[]): Promise<Saved> {
    const argv = [...this.#restic, "backup", "--json", "--host", HOST, ...words];
    const { exitCode, stdout, stderr } = await this.#untilStalled(argv);
    const failure = this.#failed("backup", stderr || stdout);
    if (exitCode === SOME_UNREADABLE) throw new Unreadable(failure.message, unreadableIn(stderr));
    if (exitCode !== 0) throw failure;
    const summary = stdout
      .trim()
      .split("\n")
      .flatMap((line) => (line.includes('"summary"') ? [JSON.parse(line)] : []))
      .at(-1);
    const { snapshot_id: id, data_added_packed: sentBytes } = summary ?? {};
    if (typeof id !== "string" || !/^[0-9a-f]{64}$/.test(id)) throw this.#failed("name the new snapshot", stdout);
    return { id, sentBytes: Number(sentBytes) };
  }

  /** Runs a command that locks the whole repository. `unlock` first removes stale locks, as of a killed restic. */
  async #runExclusively(words: readonly string[]): Promise<void> {
    await this.#run(["unlock"]);
    await this.#runLong([...words, "--retry-lock", LOCK_WAIT]);
  }

  async #runLong(words: readonly string[]): Promise<void> {
    const { exitCode, stdout, stderr } = await this.#untilStalled([...this.#restic, ...words]);
    if (exitCode !== 0) throw this.#failed(words[0] ?? "", stderr || stdout);
  }

  /** Runs a command of any duration. Throws Fault 504 when it makes no progress for long. */
  async #untilStalled(
    argv: readonly string[],
    note = (progress: StallTimer, output: string) => progress.note(output),
  ): Promise<CommandResult> {
    using progress = new StallTimer(this.stalledMs);
    const result = await attempt(argv, {
      ...this.#options,
      env: { ...this.#env, RESTIC_PROGRESS_FPS: PROGRESS_PER_SECOND },
      onOutput: (output) => note(progress, output),
      signal: progress.stalled,
    });
    if (!progress.stalled.aborted) return result;
    const minutes = this.stalledMs / 60_000;
    throw new Fault(504, `restic at ${this.target} made no progress for ${minutes} minutes. FIX: check the target`);
  }

  /** Runs a short command. */
  async #run(words: readonly string[], outputMaxBytes = MIB): Promise<string> {
    const options = { ...this.#options, timeoutMs: ANSWER_MS, outputMaxBytes };
    const { exitCode, stdout, stderr } = await attempt([...this.#restic, ...words], options);
    if (exitCode !== 0) throw this.#failed(words[0] ?? "", stderr || stdout);
    return stdout;
  }

  get #options() {
    return { timeoutMs: null, env: this.#env, name: "restic" } as const;
  }

  #failed(work: string, output: string): Fault {
    return new Fault(500, `restic could not ${work} at ${this.target}: ${output.trim().slice(-2000)}`);
  }
}

function unreadableIn(messages: string): string[] {
  const errors = messages.split("\n").filter((line) => line.startsWith('{"message_type":"error"'));
  return errors.map((line) => String(JSON.parse(line).item));
}

/** Aborts a command that makes no progress for `stalledMs`. */
class StallTimer implements Disposable {
  readonly #abort = new AbortController();
  readonly #seen = new Map<string, string>();
  #timer: Timer | undefined;

  constructor(private readonly stalledMs: number) {
    this.restart();
  }

  get stalled(): AbortSignal {
    return this.#abort.signal;
  }

  /** restic repeats its counts, whether they have changed or not: in JSON, or in a line after the time. */
  note(output: string): void {
    for (const [, name = "", value = "", line = ""] of output.matchAll(PROGRESS)) {
      if (this.#seen.get(name) !== value + line) this.restart();
      this.#seen.set(name, value + line);
    }
  }

  restart(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#abort.abort(), this.stalledMs);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}

export function inMiB(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`;
}
