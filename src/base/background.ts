/** Tracks work that continues after its caller has returned, so that a close or a test can wait for its end. */
import { described, type Log } from "./log.ts";

export class Background {
  readonly #underWay = new Set<Promise<void>>();

  constructor(private readonly log: Log) {}

  /** Starts `work`. Errors are logged under `event` and not passed on. */
  run(event: string, work: () => Promise<void>): void {
    const task = work().catch((error: unknown) => {
      this.log.write({ level: "error", event, error: described(error) });
    });
    this.#underWay.add(task);
    void task.finally(() => this.#underWay.delete(task));
  }

  /** Resolves once no work is in progress, including work started meanwhile. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }
}
