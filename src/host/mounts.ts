/** Mounting, asynchronously: jobs go to one worker thread and are done in order. */
import { Fault } from "../contract/fault.ts";

export type MountJob =
  /** An image file, attached to a self-freeing loop device and mounted. */
  | { kind: "loop"; image: string; target: string; type: "ext4" | "btrfs"; options: string }
  | { kind: "device"; device: string; target: string; type: "btrfs"; options: string }
  | { kind: "overlay"; target: string; options: string }
  | { kind: "tmpfs"; target: string; options: string }
  | { kind: "detach"; target: string }
  /** Answers false where the filesystem cannot share blocks. */
  | { kind: "reflink"; source: string; target: string }
  /** Not a mount, but as slow: a file that is to stay in memory. Answers false where it may be dropped again. */
  | { kind: "hold"; path: string };

export type MountOutcome = { number: number; value: boolean } | { number: number; error: string };

export class Mounts {
  readonly #worker = new Worker(new URL("./mount-worker.ts", import.meta.url));
  readonly #waiting = new Map<number, { resolve: (value: boolean) => void; reject: (fault: Fault) => void }>();
  #next = 0;

  constructor() {
    this.#worker.onmessage = (event: MessageEvent<MountOutcome>) => {
      const outcome = event.data;
      const waiter = this.#waiting.get(outcome.number);
      this.#waiting.delete(outcome.number);
      if ("error" in outcome) waiter?.reject(new Fault(500, outcome.error));
      else waiter?.resolve(outcome.value);
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
