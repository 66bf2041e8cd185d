/** Java through JShell: Sandlot's runner executes cells in its own JVM; the JDK starts it from source. */
import { existsSync } from "node:fs";
import { Fault } from "../../../contract/fault.ts";
import type { Kernel, KernelOutput, Language } from "../../kernel.ts";
import { KERNEL_VARIABLES } from "../../kernel-process.ts";
import { freshId } from "../../random.ts";
import { RUNNER_CHORE_MS } from "../limits.ts";
import { interruptible, tellOutput } from "../outputs.ts";
import { Runner, type RunnerMessage } from "../runner.ts";
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
  const program = { argv: ["java", ...OPTIONS, source], variables: KERNEL_VARIABLES, pieces: chunkPieces };
  return {
    name: "java",
    start: async (folder) => new JavaKernel(await Runner.start(freshId(), program, folder)),
  };
}

class JavaKernel implements Kernel {
  readonly pid: number;
  readonly ended: Promise<void>;
  readonly #runner: Runner;
  #count = 0;
  #isCellInterrupted = false;

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
    this.#isCellInterrupted = false;
    await this.#ask(
      "cell",
      code,
      interruptible(tell, () => this.#isCellInterrupted),
    );
  }

  interrupt(): void {
    this.#isCellInterrupted = true;
    this.#runner.signal("SIGINT");
  }

  /** Sets system properties, because a Java program cannot change its environment. */
  async setVariables(variables: Readonly<Record<string, string | null>>): Promise<void> {
    const removed = Object.keys(variables).filter((name) => variables[name] === null);
    const set = Object.entries(variables).filter(([, value]) => value !== null);
    await this.#chore("unset", removed.join(SEPARATOR));
    await this.#chore("set", set.flat().join(SEPARATOR));
  }

  /** Sets a system property only, because a Java process cannot change its working folder. */
  async setFolder(path: string): Promise<void> {
    const { fault } = await this.#chore("folder", path);
    if (fault !== undefined) throw new Fault(500, `${JSON.stringify(path)} cannot be the working folder: ${fault}`);
  }

  async reseed(): Promise<void> {
    const { fault } = await this.#chore("reseed", "");
    if (fault !== undefined) throw new Fault(500, `the kernel's random numbers cannot be seeded again: ${fault}`);
  }

  async kill(): Promise<void> {
    this.#runner.signal("SIGKILL");
    await this.ended;
  }

  #chore(kind: string, body: string): Promise<RunnerMessage> {
    return this.#ask(kind, body, () => undefined, RUNNER_CHORE_MS);
  }

  #ask(kind: string, body: string, tell: (output: KernelOutput) => void, timeoutMs?: number): Promise<RunnerMessage> {
    return this.#runner.ask(
      (number) => `${number}\0${kind}\0${body.replaceAll("\0", "")}\0`,
      {
        text: (stream, text) => tell({ kind: stream, text }),
        message: (message) => tellOutput(message, tell),
      },
      timeoutMs,
    );
  }
}
