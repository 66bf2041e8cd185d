/**
 * Keeps one CRIU started before there is something to dump, or to restore. Starting one takes some milliseconds, moving
 * it into its cgroup some more, and afterwards the kernel delays the first process that CRIU releases for about as long
 * again. A client that pauses sandboxes one at a time waits for none of that.
 */
import { type Clock, systemClock, type Timer } from "../../../base/clock.ts";
import type { CriuProcess } from "./criu-process.ts";

/** The next one starts after this long without a call, so that it does not compete with running dumps or restores. */
const RENEW_MS = 100;

export interface StartedCriu {
  criu: CriuProcess;
  pid: number;
  /** The cgroup it works in, once `entered` resolves. */
  cgroup: string;
  entered: Promise<void> | undefined;
  /** It was started before there was something to dump. */
  ahead: boolean;
}

export class ReadyCriu<Started extends { criu: CriuProcess } = StartedCriu> {
  #ready: Promise<Started> | undefined;
  #renewal: Timer | undefined;
  #isClosed = false;

  constructor(
    private readonly start: (ahead: boolean) => Promise<Started>,
    private readonly clock: Pick<Clock, "after"> = systemClock,
  ) {}

  /** Returns the ready CRIU, or starts one now. The caller owns it. */
  async take(): Promise<Started> {
    this.#renewal?.cancel();
    const ready = this.#ready;
    this.#ready = undefined;
    // The reason why an early start failed may have passed.
    return (await ready?.catch(() => undefined)) ?? (await this.start(false));
  }

  /** Call this when the dump or restore is done. */
  renewSoon(): void {
    this.#renewal?.cancel();
    if (!this.#isClosed) this.#renewal = this.clock.after(RENEW_MS, () => this.#renew());
  }

  async close(): Promise<void> {
    this.#renewal?.cancel();
    this.#isClosed = true;
    const ready = await this.#ready?.catch(() => undefined);
    await ready?.criu[Symbol.asyncDispose]();
  }

  #renew(): void {
    if (this.#ready !== undefined) return;
    const started = this.start(true);
    this.#ready = started;
    const forget = () => {
      if (this.#ready === started) this.#ready = undefined;
    };
    // A CRIU that was killed is discarded.
    started.then(({ criu }) => criu.ended.then(forget), forget);
  }
}
