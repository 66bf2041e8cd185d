/**
 * A CRIU that is started before there is something to write, and waits in a cgroup of its own. To start one takes some
 * milliseconds, and to move it into its cgroup some more, after which the kernel delays the first process that CRIU
 * lets go of for about as long again. Who asks for one pause at a time waits for none of that.
 */
import type { CriuProcess } from "./criu-process.ts";

/** The next one is started when nothing was written for so long: not beside others that write. */
const RENEW_MS = 100;

export interface StartedCriu {
  criu: CriuProcess;
  pid: number;
  /** In which it works, once it has come there. */
  cgroup: string;
  entered: Promise<void> | undefined;
}

export class ReadyCriu {
  readonly #start: () => Promise<StartedCriu>;
  #ready: Promise<StartedCriu> | undefined;
  #renewal: Timer | undefined;
  #isClosed = false;

  constructor(start: () => Promise<StartedCriu>) {
    this.#start = start;
  }

  /** The one that is ready, which was started `ahead`, or one that is started now. It is the caller's. */
  async take(): Promise<StartedCriu & { ahead: boolean }> {
    clearTimeout(this.#renewal);
    const ready = this.#ready;
    this.#ready = undefined;
    // Why one could not be started ahead may be over by now.
    const taken = await ready?.catch(() => undefined);
    return taken === undefined ? { ...(await this.#start()), ahead: false } : { ...taken, ahead: true };
  }

  /** What it was taken for is done. */
  renewSoon(): void {
    clearTimeout(this.#renewal);
    this.#renewal = setTimeout(() => this.#renew(), RENEW_MS);
    this.#renewal.unref();
  }

  /** There is none from now on. */
  async close(): Promise<void> {
    clearTimeout(this.#renewal);
    this.#isClosed = true;
    const ready = await this.#ready?.catch(() => undefined);
    await ready?.criu[Symbol.asyncDispose]();
  }

  #renew(): void {
    if (this.#ready !== undefined || this.#isClosed) return;
    const started = this.#start();
    this.#ready = started;
    const forget = () => {
      if (this.#ready === started) this.#ready = undefined;
    };
    // One that somebody has killed is of no use.
    started.then(({ criu }) => criu.ended.then(forget), forget);
  }
}
