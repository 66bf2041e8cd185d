/**
 * Stops a cell that does not hear that it was interrupted. By a signal first, which ends a script; not at once, because
 * at the moment in which a script ends, for what is behind its first `await` to go on, a signal is the end of Node.
 *
 * In a loop behind an `await` Node does not look at signals. Its inspector can be switched on by a signal, has a thread
 * of its own, and knows how to end whatever runs. It is switched on for that alone, at an address that only the sandbox
 * itself reaches. Node does that once, so the connection is kept.
 */

/** A cell that has not heard by then that it was interrupted is sent a signal. */
const SIGNAL_AFTER_MS = 50;
/** And if it has not ended by then, it is stopped in a harder way. */
const BREAK_LOOP_AFTER_MS = 500;

export const INSPECTABLE = ["--inspect-port=127.0.0.1:0"] as const;

const ADDRESS = /^Debugger listening on (ws:\/\/127\.0\.0\.1:\S+)/m;
const AT_EXIT = "Waiting for the debugger to disconnect...";
const NOTICES = /^(?:Debugger (?:listening on|ending on|attached)|Waiting for the debugger|For help, see: ).*\n/gm;

export class LoopBreaker {
  readonly #pid: number;
  readonly #signal: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isSignalDue = false;
  #wasOn = false;
  #inspector: WebSocket | undefined;

  constructor(pid: number, signal: () => void) {
    this.#pid = pid;
    this.#signal = signal;
  }

  /** The cell was interrupted. */
  interrupted(): void {
    if (this.#timer !== undefined) this.#signalNow();
    else this.#arm(SIGNAL_AFTER_MS);
  }

  /** If what is left of a cell has not ended in a moment. */
  arm(): void {
    if (this.#timer === undefined) this.#arm(BREAK_LOOP_AFTER_MS);
  }

  /** The cell is over. Processes that it has started have the signal in any case. */
  cellEnded(): void {
    if (this.#isSignalDue) this.#signalNow();
    this.disarm();
  }

  disarm(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isSignalDue = false;
  }

  #arm(signalMs: number): void {
    this.#isSignalDue = true;
    this.#timer = setTimeout(() => {
      this.#signalNow();
      this.#timer = setTimeout(() => {
        // Node may lose one that comes at the moment when a script ends.
        this.#signalNow();
        this.#timer = setTimeout(() => this.#stop(), BREAK_LOOP_AFTER_MS);
      }, BREAK_LOOP_AFTER_MS);
    }, signalMs);
  }

  #signalNow(): void {
    this.#isSignalDue = false;
    this.#signal();
  }

  /** What Node prints about its inspector tells where it is, and is not for the user. */
  withoutNotices(text: string): string {
    if (!this.#wasOn) return text;
    const address = ADDRESS.exec(text)?.[1];
    if (address !== undefined) this.#connect(address);
    if (text.includes(AT_EXIT)) this.#inspector?.close();
    return text.replaceAll(NOTICES, "");
  }

  #stop(): void {
    if (this.#inspector !== undefined) {
      terminate(this.#inspector);
      return;
    }
    this.#wasOn = true;
    try {
      process.kill(this.#pid, "SIGUSR1");
    } catch {
      // It has ended.
    }
  }

  #connect(address: string): void {
    const socket = new WebSocket(address);
    this.#inspector = socket;
    // Too late, when the cell has ended by itself: the next one is not meant.
    socket.onopen = () => this.#timer !== undefined && terminate(socket);
    socket.onerror = () => undefined;
  }
}

function terminate(inspector: WebSocket): void {
  inspector.send(JSON.stringify({ id: 1, method: "Runtime.terminateExecution" }));
}
