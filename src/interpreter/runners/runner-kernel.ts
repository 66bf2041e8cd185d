/** The kernel of a runner: everything but the requests of one language. */
import { Fault } from "../../contract/fault.ts";
import type { Kernel, KernelOutput } from "../kernel.ts";
import type { Runner } from "./runner.ts";

/** Timeout of the server's own tasks in a runner, such as setting a variable. */
export const RUNNER_CHORE_MS = 20_000;

export type Tell = (output: KernelOutput) => void;

export abstract class RunnerKernel implements Kernel {
  readonly pid: number;
  readonly ended: Promise<void>;
  protected isCellInterrupted = false;
  #count = 0;

  constructor(protected readonly runner: Runner) {
    this.pid = runner.pid;
    this.ended = runner.ended;
  }

  async execute(code: string, onOutput: Tell): Promise<void> {
    onOutput({ kind: "count", count: ++this.#count });
    this.isCellInterrupted = false;
    await this.run(code, this.#count, onOutput);
  }

  interrupt(): void {
    this.isCellInterrupted = true;
    this.runner.signal("SIGINT");
  }

  async setFolder(path: string): Promise<void> {
    const fault = await this.changeFolder(path);
    if (fault !== undefined) throw new Fault(500, `${JSON.stringify(path)} cannot be the working folder: ${fault}`);
  }

  async reseed(): Promise<void> {
    const fault = await this.drawSeeds();
    if (fault !== undefined) throw new Fault(500, `the kernel's random numbers cannot be seeded again: ${fault}`);
  }

  async kill(): Promise<void> {
    this.runner.signal("SIGKILL");
    await this.ended;
  }

  abstract setVariables(variables: Readonly<Record<string, string | null>>): Promise<void>;
  /** `count` is the number of the cell. */
  protected abstract run(code: string, count: number, onOutput: Tell): Promise<void>;
  /** These two return the reason if it is not possible. */
  protected abstract changeFolder(path: string): Promise<unknown>;
  protected abstract drawSeeds(): Promise<unknown>;
}
