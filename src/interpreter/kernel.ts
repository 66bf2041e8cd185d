/** What runs code, whatever its language and however it is reached: the interface between the server and kernels. */

/**
 * Something that runs code of one language, cell by cell, and keeps what the cells before it have made. One cell at a
 * time: who calls waits until the one before is over.
 */
export interface Kernel {
  /** Of its process, which is the first of a session and of a process group of its own. */
  readonly pid: number;

  /**
   * Runs a cell. Resolves when the kernel is idle again and all that the cell said has been told. An error of the cell
   * is told and is no rejection; a kernel that ends under it rejects with `KernelEnded`.
   */
  execute(code: string, options: { isSilent: boolean }, tell: (output: KernelOutput) => void): Promise<void>;

  /** What runs is to stop: it ends with an error of its own, or nothing happens. */
  interrupt(): void;

  /** Sets, and with null removes, environment variables. Not a cell: it is neither counted nor told. */
  setVariables(variables: Readonly<Record<string, string | null>>): Promise<void>;

  /** From now on this is the working folder. Fault 500 when it cannot be. */
  setFolder(path: string): Promise<void>;

  /** Draws new seeds for all generators of random numbers that a copy of this process has in common with it. */
  reseed(): Promise<void>;

  /** Settles when its process has ended, for whatever reason. */
  readonly ended: Promise<void>;

  /** Ends it, at once. Idempotent. */
  kill(): Promise<void>;
}

export type KernelOutput =
  /** The number of the cell, from 1; silent ones have none. First of all. */
  | { kind: "count"; count: number }
  | { kind: "stdout" | "stderr"; text: string }
  /** By MIME type, values as JSON text, in which numbers are as the kernel wrote them. */
  | { kind: "result"; isMain: boolean; bundle: Readonly<Record<string, string>> }
  | { kind: "error"; name: string; value: string; traceback: string };

export class KernelEnded extends Error {
  override readonly name = "KernelEnded";
}

/** How kernels of one language are made. */
export interface Language {
  /** As contexts show it. */
  name: string;
  /** Resolves when it takes cells. Its process is the first of a session of its own. */
  start(folder: string): Promise<Kernel>;
}
