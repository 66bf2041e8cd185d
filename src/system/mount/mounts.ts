/** Mounts asynchronously: jobs go to one worker thread and run in order. */
import { Fault } from "../../contract/fault.ts";
import { type MountJob, type MountOutcome, type MountRequest, mountFault } from "./mount-job.ts";

export class Mounts {
  readonly #worker = new Worker(new URL("./mount-worker.ts", import.meta.url));
  readonly #waiting = new Map<number, { resolve: (values: boolean[]) => void; reject: (fault: Fault) => void }>();
  #next = 0;

  constructor() {
    this.#worker.onmessage = (event: MessageEvent<MountOutcome>) => {
      const outcome = event.data;
      const waiter = this.#waiting.get(outcome.number);
      this.#waiting.delete(outcome.number);
      // Deferred: no other message arrives before this handler returns, so a caller that continued here and waited for
      // one would hang.
      setImmediate(() => {
        if ("error" in outcome) waiter?.reject(mountFault(outcome));
        else waiter?.resolve(outcome.values);
      });
    };
    this.#worker.onerror = (event) => {
      for (const waiter of this.#waiting.values()) waiter.reject(new Fault(500, `mount worker: ${event.message}`));
      this.#waiting.clear();
    };
  }

  async do(job: MountJob): Promise<boolean> {
    const [value] = await this.doAll([job]);
    return value === true;
  }

  /**
   * Sends several jobs in one message: a message costs this thread more than most of these jobs cost the worker.
   * Returns the result of each, up to a reflink that fails.
   */
  doAll(jobs: readonly MountJob[]): Promise<boolean[]> {
    const request: MountRequest = { number: this.#next++, jobs };
    return new Promise((resolve, reject) => {
      this.#waiting.set(request.number, { resolve, reject });
      this.#worker.postMessage(request);
    });
  }

  close(): void {
    this.#worker.terminate();
  }
}
