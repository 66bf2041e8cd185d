/** A thread for the tests of `JobThread`: each job names its own outcome. */
import { Fault } from "../../contract/fault.ts";
import { answerJobs } from "../job-thread.ts";

declare const self: Worker;

export type OddJob = "done" | "refused" | "busy" | "short" | "fatal" | "slow";

/** Longer than any test waits. */
const SLOW_MS = 300;

class Fatal extends Error {}

function perform(job: OddJob): boolean {
  if (job === "refused") throw new Fault(404, "there is none");
  if (job === "busy") throw new Fault(503, "no free device");
  if (job === "short") throw Object.assign(new Error("open '/secret/path'"), { code: "EMFILE" });
  if (job === "fatal") throw new Fatal("never again");
  if (job === "slow") Bun.sleepSync(SLOW_MS);
  return job === "done";
}

answerJobs(self, perform, (error) => error instanceof Fatal);
