/** A Jupyter kernel: a separate process, reached through sockets in a folder that only root can enter. */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { kernelUuid } from "../../base/kernel-random.ts";
import { Fault } from "../../contract/fault.ts";
import { type Kernel, KernelEnded, type KernelOutput } from "../kernel.ts";
import type { KernelProcess } from "../kernel-process.ts";
import { KERNEL_FINAL_OUTPUT_MS, KERNEL_START_MS } from "../limits.ts";
import { logFailure } from "../log.ts";
import { KernelConnection } from "./connection.ts";
import type { Received } from "./message.ts";
import { outputsOf } from "./outputs.ts";

/** Timeout of the server's own tasks in a kernel, such as setting a variable. */
const KERNEL_CHORE_MS = 20_000;
/** Wait for a kernel that exits by its own cell. */
const KERNEL_EXIT_MS = 5_000;

/** The differences between languages. */
export interface JupyterLanguage {
  /** Starts the kernel's process, which reads its settings from the file. */
  launch(connectionFile: string, folder: string): Promise<KernelProcess>;
  /** Code for the kernel that leaves nothing in the user's namespace. */
  chores: {
    setVariables(variables: Readonly<Record<string, string | null>>): string;
    setFolder(path: string): string;
    reseed(): string;
  };
}

interface Cell {
  id: string;
  onOutput(output: KernelOutput): void;
  isIdle: boolean;
  reply: Reply | undefined;
  over: PromiseWithResolvers<Reply>;
}

interface Reply {
  status: string;
  ename?: string;
  evalue?: string;
  payload?: { source?: string }[];
}

export class JupyterKernel implements Kernel {
  readonly pid: number;
  readonly ended: Promise<void>;
  #connection: KernelConnection | undefined;
  #cell: Cell | undefined;

  private constructor(
    private readonly process: KernelProcess,
    private readonly language: JupyterLanguage,
  ) {
    this.pid = process.pid;
    this.ended = process.ended;
    void this.ended.then(() => this.#lose());
  }

  /** `runFolder` must be accessible to root only: its sockets give full control of the kernel. */
  static async start(runFolder: string, language: JupyterLanguage, workFolder: string): Promise<JupyterKernel> {
    await mkdir(runFolder, { recursive: true, mode: 0o700 });
    // A new name each time: sockets left by another kernel break a start.
    const file = join(runFolder, `${kernelUuid()}.json`);
    const session = await KernelConnection.describe(file);
    const process = await language.launch(file, workFolder);
    const kernel = new JupyterKernel(process, language);
    kernel.ended.then(() => removeSockets(file)).catch(() => undefined);
    const giveUp = new AbortController();
    const late = setTimeout(() => giveUp.abort(new Error(`not within ${KERNEL_START_MS} ms`)), KERNEL_START_MS);
    void process.ended.then(() => giveUp.abort(new Error("it ended")));
    try {
      kernel.#connection = await KernelConnection.open(file, session, giveUp.signal, {
        onReceived: (from, message) => kernel.#receive(from, message),
        onLeftOut: (bytes) => kernel.#reportLeftOut(bytes),
        // A kernel without its sockets is useless.
        onLost: () => void kernel.kill(),
      });
    } catch (error) {
      await kernel.kill();
      const wrote = await process.log();
      throw new Fault(500, `the kernel did not start: ${String(error)}; it wrote: ${wrote}`, { cause: error });
    } finally {
      clearTimeout(late);
    }
    // The kernel works without a warm-up, only slower at first.
    await kernel.#warmUp().catch((error: unknown) => logFailure("warm-up", error));
    return kernel;
  }

  /** Runs the code paths of the first cell, so that they are loaded, and in the snapshot for all its sandboxes. */
  async #warmUp(): Promise<void> {
    await this.setVariables({});
    await this.reseed();
    await this.#run("1 + 1", true, () => undefined);
  }

  async execute(code: string, onOutput: Cell["onOutput"]): Promise<void> {
    const { status, payload = [] } = await this.#run(code, false, onOutput);
    if (status === "aborted") {
      onOutput({
        kind: "error",
        name: "ExecutionAborted",
        value: "The kernel refused to run the code.",
        traceback: "",
      });
    }
    // `exit()` and `quit()`: the kernel announces its end and exits after it has reported idle.
    if (payload.some(({ source }) => source === "ask_exit")) {
      await Promise.race([this.ended, Bun.sleep(KERNEL_EXIT_MS)]);
      await this.kill();
      throw new KernelEnded("the code told the kernel to exit");
    }
  }

  interrupt(): void {
    this.process.signal("SIGINT");
  }

  async setVariables(variables: Readonly<Record<string, string | null>>): Promise<void> {
    await this.#chore("set variables", this.language.chores.setVariables(variables));
  }

  async setFolder(path: string): Promise<void> {
    await this.#chore(`use ${JSON.stringify(path)} as its working folder`, this.language.chores.setFolder(path));
  }

  async reseed(): Promise<void> {
    await this.#chore("draw new seeds", this.language.chores.reseed());
  }

  async kill(): Promise<void> {
    this.process.signal("SIGKILL");
    await this.ended;
  }

  async #chore(what: string, code: string): Promise<void> {
    const done = this.#run(code, true, () => undefined);
    // Kill a kernel that does not reply; pending requests then fail with its end.
    const late = setTimeout(() => void this.kill(), KERNEL_CHORE_MS);
    const { status, ename, evalue } = await done.finally(() => clearTimeout(late));
    if (status !== "ok") throw new Fault(500, `the kernel could not ${what}: ${ename ?? status}: ${evalue ?? ""}`);
  }

  #run(code: string, isSilent: boolean, onOutput: Cell["onOutput"]): Promise<Reply> {
    if (this.#connection === undefined) return Promise.reject(new KernelEnded("the kernel has ended"));
    const id = this.#connection.request("execute_request", {
      code,
      silent: isSilent,
      store_history: !isSilent,
      user_expressions: {},
      allow_stdin: false,
      stop_on_error: true,
    });
    const over = Promise.withResolvers<Reply>();
    this.#cell = { id, onOutput, isIdle: false, reply: undefined, over };
    return over.promise;
  }

  #receive(from: "shell" | "iopub", message: Received): void {
    const cell = this.#cell;
    if (cell === undefined || message.parentId !== cell.id) return;
    if (from === "shell") {
      if (message.type === "execute_reply") cell.reply = JSON.parse(message.content) as Reply;
    } else if (message.type === "status") {
      const { execution_state: state } = JSON.parse(message.content) as { execution_state?: string };
      if (state === "idle") cell.isIdle = true;
    } else {
      for (const output of outputsOf(message)) cell.onOutput(output);
    }
    if (!cell.isIdle || cell.reply === undefined) return;
    this.#cell = undefined;
    cell.over.resolve(cell.reply);
  }

  #reportLeftOut(bytes: number): void {
    this.#cell?.onOutput({ kind: "stderr", text: `[an output of ${bytes} bytes is left out: it is too large]\n` });
  }

  /** Earlier output may still be unread. A forked child can hold the sockets open, so the wait is bounded. */
  async #lose(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    if (connection !== undefined) await Promise.race([connection.read, Bun.sleep(KERNEL_FINAL_OUTPUT_MS)]);
    connection?.close();
    this.#cell?.over.reject(new KernelEnded("the kernel has ended"));
    this.#cell = undefined;
  }
}

async function removeSockets(file: string): Promise<void> {
  const prefix = file.replace(/\.json$/, "");
  for (const name of [file, ...[1, 2, 3, 4, 5].map((port) => `${prefix}-${port}`)]) await rm(name, { force: true });
}
