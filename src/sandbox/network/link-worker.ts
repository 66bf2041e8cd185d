/** The thread on which interfaces are made and removed. It is in a sandbox's network for a moment, the server never. */
import { answerJobs } from "../../system/job-thread.ts";
import { Stranded } from "../../system/net/namespace-visit.ts";
import { type LinkJob, performLinkJob } from "./plugging.ts";

declare const self: Worker;

answerJobs<LinkJob>(
  self,
  (job) => {
    performLinkJob(job);
    return true;
  },
  (error) => error instanceof Stranded,
);
