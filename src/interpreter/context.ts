/** A context: a kernel and a queue of executions in it. It outlives its kernels. */
import { stat } from "node:fs/promises";
import { Fault } from "../contract/fault.ts";
import type { ExecutionStream } from "./execution-stream.ts";
import { type Kernel, KernelEnded, type Language } from "./kernel.ts";
import { signalGroup } from "./kernel-process.ts";
import { HOME_FOLDER, type Kernels } from "./kernels.ts";
import { logFailure } from "./log.ts";
import type { Variables } from "./sandbox-facts.ts";

/** Per context. */
export const EXECUTIONS_WAITING_MAX = 1_000;
/** Repeated interrupts, after the first one, of a running cell whose client has disconnected. */
export const INTERRUPT_AGAIN_MS = [1_000, 3_000] as const;
/** After this time the kernel is replaced. */
const INTERRUPT_KILL_MS = 5_000;

interface Execution {
  code: string;
  /** For this execution only. */
  variables: Variables;
  /** Authorizes reading the sandbox's variables. */
  accessToken: string | undefined;
}

export class Context {
  #kernel: Promise<Kernel>;
  /** The sandbox's variables as set in this kernel; undefined until set. */
  #variables: { kernel: Kernel; values: Variables } | undefined;
  #turns = Promise.resolve();
  #waiting = 0;
  /** Whether the kernel of the running execution is ended by request. */
  #isEndedByRequest = false;
  #isRemoved = false;

  private constructor(
    readonly id: string,
    readonly language: Language,
    readonly folder: string,
    private readonly kernels: Kernels,
    kernel: Kernel,
  ) {
    this.#kernel = Promise.resolve(kernel);
    this.#watch(kernel);
  }

  /** Fault 500: the kernel does not start or cannot use that folder. */
  static async open(id: string, language: Language, folder: string, kernels: Kernels): Promise<Context> {
    // Check the folder before a kernel is spent on it.
    if (folder !== HOME_FOLDER) await requireFolder(folder);
    const kernel = await kernels.take(language);
    try {
      if (folder !== HOME_FOLDER) await kernel.setFolder(folder);
    } catch (error) {
      await kernel.kill();
      throw error instanceof KernelEnded ? new Fault(500, "the kernel ended while it started") : error;
    }
    return new Context(id, language, folder, kernels, kernel);
  }

  /** Fault 429: too many executions wait. Call this before the response begins. */
  requirePlace(): void {
    if (this.#waiting < EXECUTIONS_WAITING_MAX) return;
    const bound = `${EXECUTIONS_WAITING_MAX} (EXECUTIONS_WAITING_MAX)`;
    throw new Fault(429, `${bound} executions wait in the context ${this.id}; wait for some of them to end`);
  }

  /** Queues the execution and writes its output to the stream, up to the end of the stream. */
  execute(execution: Execution, stream: ExecutionStream): void {
    this.#waiting++;
    this.#turns = this.#turns.then(async () => {
      this.#waiting--;
      if (stream.gone.aborted) return;
      try {
        await this.kernels.whileRunning(() => this.#turn(execution, stream));
      } catch (error) {
        logFailure("execution", error);
      } finally {
        stream.end();
      }
    });
  }

  /** Resolves when the new kernel accepts code. */
  async restart(): Promise<void> {
    const old = this.#kernel;
    this.#replaceKernel();
    const replacement = this.#kernel;
    await this.#end(old);
    await replacement;
  }

  async remove(): Promise<void> {
    this.#isRemoved = true;
    await this.#end(this.#kernel);
  }

  async #end(kernel: Promise<Kernel>): Promise<void> {
    this.#isEndedByRequest = true;
    // A kernel that failed to start needs no kill.
    const started = await kernel.catch(() => undefined);
    await started?.kill();
  }

  async #turn(execution: Execution, stream: ExecutionStream): Promise<void> {
    this.#isEndedByRequest = this.#isRemoved;
    let kernel: Kernel | undefined;
    try {
      kernel = await this.#usableKernel();
      await this.#prepare(kernel, execution);
      await this.#run(kernel, execution.code, stream);
      stream.end();
      await this.#forget(kernel, execution.variables);
    } catch (error) {
      stream.write(this.#failure(error));
      stream.end();
      // The kernel may lack state that the next execution expects, so replace it.
      if (kernel !== undefined && !(error instanceof Fault)) await kernel.kill();
    }
  }

  async #usableKernel(): Promise<Kernel> {
    if (this.#isRemoved) throw new KernelEnded("the context was removed");
    try {
      return await this.#kernel;
    } catch {
      // The kernel failed to start earlier; try again now.
      this.#replaceKernel();
      return await this.#kernel;
    }
  }

  async #prepare(kernel: Kernel, { variables, accessToken }: Execution): Promise<void> {
    const isCopy = await this.kernels.settle(kernel);
    const had = this.#variables?.kernel === kernel ? this.#variables.values : undefined;
    const current = had === undefined || isCopy ? await this.kernels.facts.variables(accessToken) : undefined;
    const changes: Record<string, string | null> = {};
    if (current !== undefined) {
      for (const name of Object.keys(had ?? {})) changes[name] = null;
      Object.assign(changes, current);
    }
    Object.assign(changes, variables);
    if (Object.keys(changes).length > 0) await kernel.setVariables(changes);
    if (current !== undefined) this.#variables = { kernel, values: current };
  }

  /** Restores the former values of variables that were set for one execution. */
  async #forget(kernel: Kernel, variables: Variables): Promise<void> {
    const names = Object.keys(variables);
    if (names.length === 0) return;
    const are = this.#variables?.kernel === kernel ? this.#variables.values : {};
    await kernel.setVariables(Object.fromEntries(names.map((name) => [name, are[name] ?? null])));
  }

  async #run(kernel: Kernel, code: string, stream: ExecutionStream): Promise<void> {
    const timers: Timer[] = [];
    let isHeld = false;
    const hold = (shouldBe: boolean) => {
      isHeld = shouldBe;
      signalGroup(kernel.pid, shouldBe ? "SIGSTOP" : "SIGCONT");
    };
    const leave = () => {
      if (isHeld) hold(false);
      kernel.interrupt();
      for (const again of INTERRUPT_AGAIN_MS) timers.push(setTimeout(() => kernel.interrupt(), again));
      timers.push(setTimeout(() => void kernel.kill(), INTERRUPT_KILL_MS));
    };
    stream.onHold = hold;
    stream.gone.addEventListener("abort", leave, { once: true });
    try {
      if (stream.gone.aborted) return;
      await kernel.execute(code, (output) => stream.write(output));
    } finally {
      for (const timer of timers) clearTimeout(timer);
      stream.gone.removeEventListener("abort", leave);
      stream.onHold = () => undefined;
      if (isHeld) hold(false);
    }
  }

  #failure(error: unknown) {
    const ended = (name: string, value: string) => ({ kind: "error", name, value, traceback: "" }) as const;
    if (error instanceof KernelEnded && this.#isEndedByRequest) {
      return ended("UnexpectedEndOfExecution", "The context was restarted or removed while the code ran or waited.");
    }
    if (error instanceof KernelEnded) {
      return ended(
        "ContextRestarting",
        "The kernel ended while the code ran. The context has a new one: variables are gone.",
      );
    }
    if (error instanceof Fault) return ended("KernelError", error.message);
    logFailure("execution", error);
    return ended("KernelError", "internal error");
  }

  #replaceKernel(): void {
    const kernel = this.kernels.take(this.language).then(async (started) => {
      this.#watch(started);
      // The folder may be gone by now: a kernel in another folder is better than none.
      if (this.folder !== HOME_FOLDER)
        await started.setFolder(this.folder).catch((error: unknown) => logFailure("folder", error));
      return started;
    });
    // The next user of the kernel gets the error.
    kernel.catch(() => undefined);
    this.#kernel = kernel;
  }

  /** Replaces a kernel that ends by itself at once, so that the next execution does not wait for the start. */
  #watch(kernel: Kernel): void {
    void kernel.ended.then(async () => {
      const current = await this.#kernel.catch(() => undefined);
      if (!this.#isRemoved && current === kernel) this.#replaceKernel();
    });
  }
}

async function requireFolder(path: string): Promise<void> {
  const status = await stat(path).catch(() => undefined);
  if (status?.isDirectory() !== true)
    throw new Fault(500, `cwd is ${JSON.stringify(path)}, which is not a folder; create it first`);
}
