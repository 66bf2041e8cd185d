/** Java through JShell: Sandlot's runner executes cells in its own JVM; the JDK starts it from source. */
import { existsSync } from "node:fs";
import type { Language } from "../../kernel.ts";
import { emitOutput, interruptible } from "../outputs.ts";
import { Runner, type RunnerMessage } from "../runner.ts";
import { RUNNER_CHORE_MS, RunnerKernel, type Tell } from "../runner-kernel.ts";
import { chunkPieces } from "../text.ts";

const IN_TEMPLATE = "/opt/sandlot/java/Runner.java";

/** Options for a fast start rather than peak speed, without files that copies of the sandbox would share. */
const OPTIONS = [
  "-XX:+UseSerialGC",
  "-XX:TieredStopAtLevel=1",
  "-XX:-UsePerfData",
  "-Dfile.encoding=UTF-8",
  "--add-modules=jdk.jshell,jdk.unsupported",
  "--add-opens=java.base/java.lang=ALL-UNNAMED",
];
/** Separates parts of a request; names and values do not contain it. */
const SEPARATOR = "\u0001";

/** Undefined: not installed. */
export function java(source = IN_TEMPLATE): Language | undefined {
  if (!existsSync(source)) return undefined;
  const program = { argv: ["java", ...OPTIONS, source], pieces: chunkPieces };
  return {
    name: "java",
    start: async (folder) => new JavaKernel(await Runner.start(program, folder)),
  };
}

class JavaKernel extends RunnerKernel {
  /** Sets system properties, because a Java program cannot change its environment. */
  async setVariables(variables: Readonly<Record<string, string | null>>): Promise<void> {
    const removed = Object.keys(variables).filter((name) => variables[name] === null);
    const set = Object.entries(variables).filter(([, value]) => value !== null);
    await this.#internalRun("unset", removed.join(SEPARATOR));
    await this.#internalRun("set", set.flat().join(SEPARATOR));
  }

  protected async run(code: string, _count: number, onOutput: Tell): Promise<void> {
    await this.#ask(
      "cell",
      code,
      interruptible(onOutput, () => this.isCellInterrupted),
    );
  }

  /** Sets a system property only, because a Java process cannot change its working folder. */
  protected async changeFolder(path: string): Promise<unknown> {
    return (await this.#internalRun("folder", path)).fault;
  }

  protected async drawSeeds(): Promise<unknown> {
    return (await this.#internalRun("reseed", "")).fault;
  }

  #internalRun(kind: string, body: string): Promise<RunnerMessage> {
    return this.#ask(kind, body, () => undefined, RUNNER_CHORE_MS);
  }

  #ask(kind: string, body: string, onOutput: Tell, timeoutMs?: number): Promise<RunnerMessage> {
    return this.runner.ask(
      (number) => `${number}\0${kind}\0${body.replaceAll("\0", "")}\0`,
      {
        text: (stream, text) => onOutput({ kind: stream, text }),
        message: (message) => emitOutput(message, onOutput),
      },
      timeoutMs,
    );
  }
}
