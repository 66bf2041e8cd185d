/** A kernel's process in its own session. It ends with the server, however that ends. */
import { writeFileSync } from "node:fs";
import { KERNEL_FINAL_OUTPUT_MS } from "./limits.ts";

/** Length of the kept stderr of a starting kernel, shown if the start fails. */
const KERNEL_LOG_MAX_CHARS = 4_000;

/** When memory runs out, Linux kills the process with the highest score: a kernel, which can be replaced. */
const OOM_SCORE = 800;

/** The initial environment of every kernel. */
export const KERNEL_VARIABLES = {
  PATH: "/root/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: "/root",
  USER: "root",
  LOGNAME: "root",
  SHELL: "/bin/bash",
  LANG: "C.UTF-8",
} as const;

export class KernelProcess {
  readonly ended: Promise<void>;
  #hasEnded = false;

  /** `finalOutput` returns the end of its stderr. */
  constructor(
    readonly pid: number,
    ended: Promise<unknown>,
    private readonly finalOutput: () => Promise<string>,
  ) {
    this.ended = ended.then(() => {
      this.#hasEnded = true;
    });
    preferForOom(pid);
  }

  static start(argv: readonly string[], folder: string): KernelProcess {
    const child = Bun.spawn(["setpriv", "--pdeathsig", "KILL", ...argv], {
      cwd: folder,
      env: KERNEL_VARIABLES,
      detached: true,
      stdio: ["ignore", "ignore", "pipe"],
    });
    const log = new FinalOutput(child.stderr);
    return new KernelProcess(child.pid, child.exited, () => log.whole());
  }

  signal(name: "SIGINT" | "SIGKILL"): void {
    if (!this.#hasEnded) signalGroup(this.pid, name);
  }

  /** The end of its stderr, once the process has ended. */
  async log(): Promise<string> {
    return (await this.finalOutput()).trim();
  }
}

/** Reads stderr to its end and keeps the last KERNEL_LOG_MAX_CHARS characters. */
export class FinalOutput {
  text = "";
  readonly #read: Promise<void>;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#read = this.#readAll(stream);
  }

  /** Once the process has ended: its output may not have been read yet, and another process may hold it open. */
  async whole(): Promise<string> {
    await Promise.race([this.#read, Bun.sleep(KERNEL_FINAL_OUTPUT_MS)]);
    return this.text;
  }

  async #readAll(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const piece of stream) {
      this.text = (this.text + decoder.decode(piece, { stream: true })).slice(-KERNEL_LOG_MAX_CHARS);
    }
  }
}

/** Signals a process and its children in the same process group. */
export function signalGroup(pid: number, name: "SIGINT" | "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
  try {
    process.kill(-pid, name);
  } catch {
    // All processes are gone.
  }
}

export function preferForOom(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(OOM_SCORE));
  } catch {
    // The process is gone.
  }
}
