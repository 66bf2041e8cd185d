/** The interface between the server and kernels of any language. */

/** Runs code of one language cell by cell, one at a time, and keeps state between cells. */
export interface Kernel {
  /** Its process leads its own session and process group. */
  readonly pid: number;

  /** Runs a cell; resolves after all output. Its error is output; the kernel's end rejects with `KernelEnded`. */
  execute(code: string, onOutput: (output: KernelOutput) => void): Promise<void>;

  /** Interrupts the running cell, which then ends with an error. A cell may ignore it. */
  interrupt(): void;

  /** Sets environment variables, or removes those that are null. This is not a cell: it has no number and no output. */
  setVariables(variables: Readonly<Record<string, string | null>>): Promise<void>;

  /** Changes the working folder. Fault 500: not possible. */
  setFolder(path: string): Promise<void>;

  /** Reseeds all random generators whose state this process shares with its copies. */
  reseed(): Promise<void>;

  /** Settles when its process has ended, for whatever reason. */
  readonly ended: Promise<void>;

  /** Kills the process at once. Idempotent. */
  kill(): Promise<void>;
}

export type KernelOutput =
  /** The cell's number, from 1. Always the first output. */
  | { kind: "count"; count: number }
  | { kind: "stdout" | "stderr"; text: string }
  /** Values as JSON text by MIME type; numbers stay as the kernel wrote them. */
  | { kind: "result"; isMain: boolean; bundle: Readonly<Record<string, string>> }
  | { kind: "error"; name: string; value: string; traceback: string };

export class KernelEnded extends Error {
  override readonly name = "KernelEnded";
}

/** Starts kernels of one language. */
export interface Language {
  /** The name that contexts show. */
  name: string;
  /** Resolves when the kernel accepts cells. Its process leads its own session. */
  start(folder: string): Promise<Kernel>;
}
