/**
 * JavaScript and TypeScript in Node. The server turns cells into scripts; the runner in `node/` runs them. Node is used
 * although Bun is present: native npm packages, `process.version` and error texts match what E2B's users know, and Node
 * can be interrupted in the middle of a loop.
 */
import { Fault } from "../../../contract/fault.ts";
import { KernelEnded, type KernelOutput, type Language } from "../../kernel.ts";
import { emitOutput, interruptible } from "../outputs.ts";
import { Runner, type RunnerListener, type RunnerMessage } from "../runner.ts";
import { RUNNER_CHORE_MS, RunnerKernel, type Tell } from "../runner-kernel.ts";
import { chunkPieces } from "../text.ts";
import { CellSyntaxError, type Script, scriptOf } from "./cell.ts";
import { INSPECTABLE, LoopBreaker } from "./loop-breaker.ts";

/** Timeouts of successive tries to reach a kernel after an interrupted cell; then it is replaced. */
const LEFT_LOOP_MS = [2_000, 6_000] as const;

interface Place {
  node: string;
  /** The bundled runner, with the package koffi beside it. */
  runner: string;
}

const IN_TEMPLATE: Place = { node: "node", runner: "/opt/sandlot/javascript/runner.mjs" };

export function javascript(
  name: "javascript" | "typescript",
  { node, runner: runnerFile }: Place = IN_TEMPLATE,
): Language {
  return {
    name,
    start: async (folder) => {
      const argv = [node, "--disable-warning=ExperimentalWarning", ...INSPECTABLE, runnerFile];
      return new JavascriptKernel(await Runner.start({ argv, pieces: chunkPieces }, folder), name);
    },
  };
}

class JavascriptKernel extends RunnerKernel {
  readonly #breaker: LoopBreaker;
  #wasInterrupted = false;

  constructor(
    runner: Runner,
    private readonly language: "javascript" | "typescript",
  ) {
    super(runner);
    this.#breaker = new LoopBreaker(runner.pid, () => runner.signal("SIGINT"));
  }

  protected async run(code: string, count: number, onOutput: Tell): Promise<void> {
    const name = `[cell ${count}]`;
    let script: Script;
    try {
      script = scriptOf(code, this.language);
    } catch (thrown) {
      if (!(thrown instanceof CellSyntaxError)) throw thrown;
      onOutput(syntaxError(thrown, code, name));
      return;
    }
    await this.#reach();
    const emitOwn = interruptible(onOutput, () => this.isCellInterrupted);
    try {
      await this.runner.ask((number) => line(Object.assign({ number, kind: "cell", name }, script)), {
        text: (kind, text) => {
          const users = kind === "stderr" ? this.#breaker.withoutNotices(text) : text;
          if (users !== "") onOutput({ kind, text: users });
        },
        message: (message) => emitOutput(message, emitOwn),
      });
    } finally {
      this.#breaker.cellEnded();
    }
  }

  override interrupt(): void {
    this.#wasInterrupted = true;
    this.isCellInterrupted = true;
    this.runner.send(line({ kind: "interrupt" }));
    this.#breaker.interrupted();
  }

  async setVariables(variables: Readonly<Record<string, string | null>>): Promise<void> {
    await this.#chore({ kind: "variables", variables });
  }

  protected async changeFolder(path: string): Promise<unknown> {
    return (await this.#chore({ kind: "folder", folder: path })).fault;
  }

  protected async drawSeeds(): Promise<unknown> {
    return (await this.#chore({ kind: "reseed" })).fault;
  }

  async #chore(body: object): Promise<RunnerMessage> {
    await this.#reach();
    return await this.#ask(body, RUNNER_CHORE_MS);
  }

  /** What promises of an interrupted cell do later must not block the next request, so a loop is broken there. */
  async #reach(): Promise<void> {
    if (!this.#wasInterrupted) return;
    for (const withinMs of LEFT_LOOP_MS) {
      this.#breaker.arm();
      try {
        await this.#ask({ kind: "variables", variables: {} }, withinMs);
        return;
      } catch (thrown) {
        if (!(thrown instanceof Fault)) throw thrown;
      } finally {
        this.#breaker.disarm();
      }
    }
    await this.kill();
    throw new KernelEnded("code that an earlier cell has left behind holds up the kernel");
  }

  #ask(body: object, timeoutMs: number): Promise<RunnerMessage> {
    const listener: RunnerListener = {
      text: (_kind, text) => void this.#breaker.withoutNotices(text),
      message: () => undefined,
    };
    return this.runner.ask((number) => line(Object.assign({ number }, body)), listener, timeoutMs);
  }
}

function line(request: object): string {
  return `${JSON.stringify(request)}\n`;
}

function syntaxError({ message, line, column }: CellSyntaxError, code: string, name: string): KernelOutput {
  const text = code.split("\n")[line - 1] ?? "";
  const traceback = `${name}:${line}\n${text}\n${" ".repeat(column)}^\n\nSyntaxError: ${message}`;
  return { kind: "error", name: "SyntaxError", value: message, traceback };
}
