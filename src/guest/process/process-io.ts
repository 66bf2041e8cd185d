/** Interface to a running process's input and output, implemented by pipes.ts and terminal.ts. */
import type { OutputKind } from "./output-envelopes.ts";

export interface Exit {
  code: number | null;
  /** A name such as SIGKILL, or a number for a signal without a name. */
  signal: string | number | null;
}

export interface ProcessIo {
  readonly kind: "pipes" | "terminal";
  readonly pid: number;
  readonly exited: Promise<Exit>;
  /** Settles when every process has closed the writing ends of the output. */
  readonly outputEnded: Promise<void>;
  /** Whether output is still unread, or waits for a listener. */
  hasOutput(): boolean;
  /** Settles when the kernel has taken the bytes. */
  write(bytes: Uint8Array): Promise<void>;
  closeInput(): Promise<void>;
  resize(cols: number, rows: number): void;
  kill(signal: NodeJS.Signals): void;
  /** Releases resources of a process after its end was reported. */
  release(): Promise<void>;
}

/** Receives output from a carrier. The carrier must not read on before the returned promise settles. */
export type OutputSink = (kind: OutputKind, chunk: Uint8Array) => Promise<unknown> | undefined;
