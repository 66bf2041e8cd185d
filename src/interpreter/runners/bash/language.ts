/** bash: one shell for all cells. As in a script, a nonzero exit status of a cell is its error. */
import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Fault } from "../../../contract/fault.ts";
import type { Kernel, KernelOutput, Language } from "../../kernel.ts";
import { KERNEL_VARIABLES } from "../../kernel-process.ts";
import { freshId } from "../../random.ts";
import { RUNNER_CHORE_MS } from "../limits.ts";
import { Runner, type RunnerEars } from "../runner.ts";
import { linePieces } from "../text.ts";
import { BASH_PROGRAM } from "./program.ts";

/** Other names cannot be shell variables. */
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const DIRECT_MAX_CHARS = 4_096;

export function bash(): Language {
  return {
    name: "bash",
    start: async (folder) => {
      const program = {
        argv: ["bash", "--norc", "--noprofile", "-c", BASH_PROGRAM, "bash"],
        variables: KERNEL_VARIABLES,
        pieces: linePieces,
      };
      return new BashKernel(await Runner.start(freshId(), program, folder));
    },
  };
}

class BashKernel implements Kernel {
  readonly pid: number;
  readonly ended: Promise<void>;
  readonly #runner: Runner;
  #count = 0;

  constructor(runner: Runner) {
    this.#runner = runner;
    this.pid = runner.pid;
    this.ended = runner.ended;
  }

  async execute(
    code: string,
    { isSilent }: { isSilent: boolean },
    tell: (output: KernelOutput) => void,
  ): Promise<void> {
    if (!isSilent) tell({ kind: "count", count: ++this.#count });
    const text: RunnerEars["text"] = (kind, said) => tell({ kind, text: said });
    const status = await (isSilent ? this.#run("chore", code, text) : this.#runCell(code, text));
    if (status !== 0) tell({ kind: "error", name: "", value: String(status), traceback: `exit status ${status}` });
  }

  interrupt(): void {
    this.#runner.signal("SIGINT");
  }

  async setVariables(variables: Readonly<Record<string, string | null>>): Promise<void> {
    const lines = Object.entries(variables)
      .filter(([name]) => NAME.test(name))
      .map(([name, value]) => (value === null ? `unset ${name}` : `export ${name}=${quoted(value)}`));
    await this.#chore(lines.join("\n"));
  }

  async setFolder(path: string): Promise<void> {
    const { status, said } = await this.#chore(`cd -- ${quoted(path)}`);
    if (status !== 0) throw new Fault(500, `${JSON.stringify(path)} cannot be the working folder: ${said.trim()}`);
  }

  /** Assigning to RANDOM seeds it. A shell has no other random state. */
  async reseed(): Promise<void> {
    await this.#chore("RANDOM=$SRANDOM");
  }

  async kill(): Promise<void> {
    this.#runner.signal("SIGKILL");
    await this.ended;
  }

  async #chore(code: string): Promise<{ status: number; said: string }> {
    let said = "";
    const status = await this.#run("chore", code, (_stream, text) => (said += text), RUNNER_CHORE_MS);
    return { status, said };
  }

  /** Runs long code from a file, because bash reads pipes byte by byte. */
  async #runCell(code: string, text: RunnerEars["text"]): Promise<number> {
    if (code.length <= DIRECT_MAX_CHARS) return this.#run("cell", code, text);
    const file = join(tmpdir(), `.cell-${freshId()}`);
    writeFileSync(file, code.replaceAll("\0", ""), { mode: 0o600, flag: "wx" });
    try {
      return await this.#run("file", file, text);
    } finally {
      rmSync(file, { force: true });
    }
  }

  /** A chore preserves `$?` of the last cell. */
  async #run(
    kind: "cell" | "chore" | "file",
    code: string,
    text: RunnerEars["text"],
    timeoutMs?: number,
  ): Promise<number> {
    // Neither shell code nor variables can contain NUL.
    const body = (number: number) => `${number}\0${kind}\0${code.replaceAll("\0", "")}\0`;
    const { status } = await this.#runner.ask(body, { text, message: () => undefined }, timeoutMs);
    return Number(status);
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
