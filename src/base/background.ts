/**
 * Work that goes on after its caller has been answered. It is counted, so that a close, or a test, can wait for its
 * end.
 */
import { described, type Log } from "./log.ts";

export class Background {
  readonly #log: Log;
  readonly #underWay = new Set<Promise<void>>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Starts `work`. What it throws is logged under `event` and goes no further. */
  run(event: string, work: () => Promise<void>): void {
    const task = work().catch((error: unknown) => {
      this.#log.write({ level: "error", event, error: described(error) });
    });
    this.#underWay.add(task);
    void task.finally(() => this.#underWay.delete(task));
  }

  /** Resolves once nothing is under way, also nothing that was started meanwhile. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }
}
