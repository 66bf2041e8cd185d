/** One run of a sandbox, as an edge process sees it: its open connections, which end with the run, and their budget. */
import { HeldBytes } from "../front/held-bytes.ts";

interface RunConnection {
  cut(): void;
}

export class SandboxRun {
  readonly connections = new Set<RunConnection>();
  /** Bytes buffered for its connections. */
  readonly held = new HeldBytes();
  /** Concurrent splices of its connections. */
  splicings = 0;
  isOver = false;

  /** When it returns, the run has no connection left. */
  end(): void {
    this.isOver = true;
    for (const connection of [...this.connections]) connection.cut();
  }
}
