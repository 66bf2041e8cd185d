/** Mounting, asynchronously: jobs go to one worker thread and are done in order. */
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
      // Not from in here: until this returns no other message comes, whoever goes on from here and waits for one.
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
   * One after the other, without a word in between: to say a word to another thread takes this one longer than most of
   * these jobs take that one. Answers what each answers, up to a reflink that cannot be.
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
