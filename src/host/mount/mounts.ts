/** Mounting, asynchronously: jobs go to one worker thread and are done in order. */
import { Fault } from "../../contract/fault.ts";
import { type MountJob, type MountOutcome, mountFault } from "./mount-job.ts";

export class Mounts {
  readonly #worker = new Worker(new URL("./mount-worker.ts", import.meta.url));
  readonly #waiting = new Map<number, { resolve: (value: boolean) => void; reject: (fault: Fault) => void }>();
  #next = 0;

  constructor() {
    this.#worker.onmessage = (event: MessageEvent<MountOutcome>) => {
      const outcome = event.data;
      const waiter = this.#waiting.get(outcome.number);
      this.#waiting.delete(outcome.number);
      // Not from in here: until this returns no other message comes, whoever goes on from here and waits for one.
      setImmediate(() => {
        if ("error" in outcome) waiter?.reject(mountFault(outcome));
        else waiter?.resolve(outcome.value);
      });
    };
    this.#worker.onerror = (event) => {
      for (const waiter of this.#waiting.values()) waiter.reject(new Fault(500, `mount worker: ${event.message}`));
      this.#waiting.clear();
    };
  }

  do(job: MountJob): Promise<boolean> {
    const number = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject });
      this.#worker.postMessage({ number, job });
    });
  }

  close(): void {
    this.#worker.terminate();
  }
}
