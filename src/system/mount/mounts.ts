/** Mounts asynchronously: jobs go to one worker thread and run in order. */
import { JobThread } from "../job-thread.ts";
import type { MountJob } from "./mount-job.ts";

export class Mounts {
  readonly #thread = new JobThread<readonly MountJob[], boolean[]>({
    program: new URL("./mount-worker.ts", import.meta.url),
    what: "a disk could not be made ready",
  });

  async do(job: MountJob): Promise<boolean> {
    const [value] = await this.doAll([job]);
    return value === true;
  }

  /** One message for several jobs: it costs more than most of them. Results end at a reflink that fails. */
  doAll(jobs: readonly MountJob[]): Promise<boolean[]> {
    return this.#thread.do(jobs);
  }

  close(): void {
    this.#thread.close();
  }
}
