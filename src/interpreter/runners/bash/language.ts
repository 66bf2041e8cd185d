/** bash: one shell for all cells. As in a script, a nonzero exit status of a cell is its error. */
import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kernelUuid } from "../../../base/kernel-random.ts";
import type { Language } from "../../kernel.ts";
import { Runner, type RunnerListener } from "../runner.ts";
import { RUNNER_CHORE_MS, RunnerKernel, type Tell } from "../runner-kernel.ts";
import { linePieces } from "../text.ts";
import { BASH_PROGRAM } from "./program.ts";

/** Other names cannot be shell variables. */
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const DIRECT_MAX_CHARS = 4_096;

export function bash(): Language {
  return {
    name: "bash",
    start: async (folder) => {
      const program = { argv: ["bash", "--norc", "--noprofile", "-c", BASH_PROGRAM, "bash"], pieces: linePieces };
      return new BashKernel(await Runner.start(program, folder));
    },
  };
}

class BashKernel extends RunnerKernel {
  async setVariables(variables: Readonly<Record<string, string | null>>): Promise<void> {
    const lines = Object.entries(variables)
      .filter(([name]) => NAME.test(name))
      .map(([name, value]) => (value === null ? `unset ${name}` : `export ${name}=${quoted(value)}`));
    await this.#chore(lines.join("\n"));
  }

  protected async run(code: string, _count: number, onOutput: Tell): Promise<void> {
    const text: RunnerListener["text"] = (kind, content) => onOutput({ kind, text: content });
    const status = await this.#runCell(code, text);
    if (status !== 0) onOutput({ kind: "error", name: "", value: String(status), traceback: `exit status ${status}` });
  }

  protected async changeFolder(path: string): Promise<string | undefined> {
    const { status, output } = await this.#chore(`cd -- ${quoted(path)}`);
    return status === 0 ? undefined : output.trim();
  }

  /** Assigning to RANDOM seeds it. A shell has no other random state. */
  protected async drawSeeds(): Promise<void> {
    await this.#chore("RANDOM=$SRANDOM");
  }

  async #chore(code: string): Promise<{ status: number; output: string }> {
    let output = "";
    const status = await this.#ask("chore", code, (_stream, text) => (output += text), RUNNER_CHORE_MS);
    return { status, output };
  }

  /** Runs long code from a file, because bash reads pipes byte by byte. */
  async #runCell(code: string, text: RunnerListener["text"]): Promise<number> {
    if (code.length <= DIRECT_MAX_CHARS) return this.#ask("cell", code, text);
    const file = join(tmpdir(), `.cell-${kernelUuid()}`);
    writeFileSync(file, code.replaceAll("\0", ""), { mode: 0o600, flag: "wx" });
    try {
      return await this.#ask("file", file, text);
    } finally {
      rmSync(file, { force: true });
    }
  }

  /** A chore preserves `$?` of the last cell. */
  async #ask(
    kind: "cell" | "chore" | "file",
    code: string,
    text: RunnerListener["text"],
    timeoutMs?: number,
  ): Promise<number> {
    // Neither shell code nor variables can contain NUL.
    const body = (number: number) => `${number}\0${kind}\0${code.replaceAll("\0", "")}\0`;
    const { status } = await this.runner.ask(body, { text, message: () => undefined }, timeoutMs);
    return Number(status);
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
