/** The process from which Python kernels are forked (`sandlot_kernel/seed.py`). They end with it and the server. */
import { boundedLines } from "../../base/bounded-lines.ts";
import { writeToStdin } from "../../base/program-stdin.ts";
import { Fault } from "../../contract/fault.ts";
import { FinalOutput, KERNEL_VARIABLES, KernelProcess } from "../kernel-process.ts";
import { KERNEL_START_MS } from "../limits.ts";
import { logFailure } from "../log.ts";

/** Maximum length of a line from the seed, which holds a number or two. */
const SEED_LINE_MAX_BYTES = 1_024;

interface SeedMessage {
  for?: number;
  pid?: number;
  fault?: string;
  ended?: number;
}

export class Seed {
  readonly #child: Bun.Subprocess<"pipe", "pipe", "pipe">;
  readonly #log: FinalOutput;
  /** Kernels that were requested and have not started, by the number of the request. */
  readonly #pendingForks = new Map<number, PromiseWithResolvers<KernelProcess>>();
  readonly #running = new Map<number, () => void>();
  #requests = 0;
  #hasEnded = false;

  constructor(argv: readonly string[], variables: Readonly<Record<string, string>>) {
    this.#child = Bun.spawn(["setpriv", "--pdeathsig", "KILL", ...argv], {
      cwd: "/",
      env: { ...KERNEL_VARIABLES, ...variables },
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#log = new FinalOutput(this.#child.stderr);
    void this.#listen();
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Resolves when the kernel's process exists; it leads its own session. */
  async fork(argv: readonly string[], folder: string): Promise<KernelProcess> {
    const number = ++this.#requests;
    const started = Promise.withResolvers<KernelProcess>();
    this.#pendingForks.set(number, started);
    const late = setTimeout(() => this.#refuse(number, `not within ${KERNEL_START_MS} ms`), KERNEL_START_MS);
    try {
      if (this.#hasEnded) this.#refuse(number, "it has ended");
      else this.#send({ for: number, folder, argv });
      return await started.promise;
    } finally {
      clearTimeout(late);
      this.#pendingForks.delete(number);
    }
  }

  /** A seed that has closed its stdin is about to end; `#listen` then refuses the request with what the seed wrote. */
  #send(request: object): void {
    void writeToStdin(this.#child.stdin, `${JSON.stringify(request)}\n`).catch((error) => logFailure("seed", error));
  }

  async #listen(): Promise<void> {
    try {
      for await (const line of boundedLines(this.#child.stdout, SEED_LINE_MAX_BYTES)) this.#receive(line);
    } catch (error) {
      // Code in the sandbox is root and may write to this pipe.
      logFailure("seed", error);
    } finally {
      this.#hasEnded = true;
      this.#child.kill("SIGKILL");
      for (const end of this.#running.values()) end();
      await this.#log.whole();
      for (const number of this.#pendingForks.keys()) this.#refuse(number, "it has ended");
    }
  }

  #receive(line: string): void {
    const { for: number, pid, fault, ended } = JSON.parse(line) as SeedMessage;
    if (ended !== undefined) {
      this.#running.get(ended)?.();
      this.#running.delete(ended);
    }
    if (number !== undefined && fault !== undefined) this.#refuse(number, fault.slice(0, SEED_LINE_MAX_BYTES));
    if (number === undefined || pid === undefined) return;
    const gone = Promise.withResolvers<void>();
    this.#running.set(pid, gone.resolve);
    const kernel = new KernelProcess(pid, gone.promise, async () => this.#log.text);
    const started = this.#pendingForks.get(number);
    if (started === undefined) kernel.signal("SIGKILL");
    else started.resolve(kernel);
  }

  #refuse(number: number, why: string): void {
    const words = `no kernel can be forked: ${why}; the process that kernels are forked from wrote: ${this.#log.text}`;
    this.#pendingForks.get(number)?.reject(new Fault(500, words));
  }
}
