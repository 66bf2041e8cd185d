/**
 * What carries a running process's input and output: pipes or a terminal. The process itself is the same either way.
 */
import type { OutputKind } from "./output-envelopes.ts";

export interface Exit {
  code: number | null;
  /** A name such as SIGKILL; a number for signals that have none. */
  signal: string | number | null;
}

export interface Carrier {
  readonly kind: "pipes" | "terminal";
  readonly pid: number;
  readonly exited: Promise<Exit>;
  /** Settles when nobody holds the writing end of any output any more. */
  readonly outputEnded: Promise<void>;
  /** Whether output that was written already is still to be read, or waits for a listener. */
  hasOutput(): boolean;
  /** Settles when the bytes were taken by the kernel. */
  write(bytes: Uint8Array): Promise<void>;
  closeInput(): Promise<void>;
  resize(cols: number, rows: number): void;
  kill(signal: NodeJS.Signals): void;
  /** Lets go of what belongs to a process whose end was told. */
  release(): Promise<void>;
}

/** Where a carrier puts output. It must not read on before the returned promise settles. */
export type OutputSink = (kind: OutputKind, chunk: Uint8Array) => Promise<unknown> | undefined;
