/** The thread that creates and removes interfaces: it alone enters the network namespaces of sandboxes. */
import { answerJobs } from "../../system/job-thread.ts";
import { NamespaceNotRestored } from "../../system/net/namespace-visit.ts";
import { type LinkJob, performLinkJob } from "./plugging.ts";

declare const self: Worker;

answerJobs<LinkJob>(
  self,
  (job) => {
    performLinkJob(job);
    return true;
  },
  (error) => error instanceof NamespaceNotRestored,
);
