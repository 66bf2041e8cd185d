/**
 * Stops a cell that does not react to an interrupt. First by a signal, which ends a synchronous script. The signal is
 * delayed, because it would kill Node at the moment when a script ends and continues behind its first `await`.
 *
 * In a loop behind an `await` Node ignores signals. Its inspector can be enabled by a signal, has its own thread, and
 * can terminate any running code. It is enabled only for this, on an address that only the sandbox itself can reach.
 * Node enables it only once, so the connection is kept.
 */

/** Delay before a cell that has not reacted to the interrupt gets a signal. */
const SIGNAL_AFTER_MS = 50;
/** Delay before a cell that still runs is stopped through the inspector. */
const BREAK_LOOP_AFTER_MS = 500;

export const INSPECTABLE = ["--inspect-port=127.0.0.1:0"] as const;

const ADDRESS = /^Debugger listening on (ws:\/\/127\.0\.0\.1:\S+)/m;
const AT_EXIT = "Waiting for the debugger to disconnect...";
const NOTICES = /^(?:Debugger (?:listening on|ending on|attached)|Waiting for the debugger|For help, see: ).*\n/gm;

export class LoopBreaker {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isSignalDue = false;
  #wasOn = false;
  #inspector: WebSocket | undefined;

  constructor(
    private readonly pid: number,
    private readonly signal: () => void,
  ) {}

  /** Call this when the cell is interrupted. */
  interrupted(): void {
    if (this.#timer !== undefined) this.#signalNow();
    else this.#arm(SIGNAL_AFTER_MS);
  }

  /** Stops code that an interrupted cell left running, unless it ends soon. */
  arm(): void {
    if (this.#timer === undefined) this.#arm(BREAK_LOOP_AFTER_MS);
  }

  /** Call this when the cell is over. Its child processes get the signal in any case. */
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
        // Repeat the signal: Node may lose one that arrives when a script ends.
        this.#signalNow();
        this.#timer = setTimeout(() => this.#stop(), BREAK_LOOP_AFTER_MS);
      }, BREAK_LOOP_AFTER_MS);
    }, signalMs);
  }

  #signalNow(): void {
    this.#isSignalDue = false;
    this.signal();
  }

  /** Extracts the inspector's address from Node's notices and hides them from the user. */
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
      process.kill(this.pid, "SIGUSR1");
    } catch {
      // The process has ended.
    }
  }

  #connect(address: string): void {
    const socket = new WebSocket(address);
    this.#inspector = socket;
    // If the cell has ended meanwhile, do nothing: the next cell must not be hit.
    socket.onopen = () => this.#timer !== undefined && terminate(socket);
    socket.onerror = () => undefined;
  }
}

function terminate(inspector: WebSocket): void {
  inspector.send(JSON.stringify({ id: 1, method: "Runtime.terminateExecution" }));
}
