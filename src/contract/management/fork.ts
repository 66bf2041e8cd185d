/** Copies of a running sandbox. */
import { z } from "zod";
import { errorBody } from "./error-body.ts";
import { FORK_COUNT_MAX, TIMEOUT_DEFAULT_V1_SECONDS } from "./limits.ts";
import { createdSandbox } from "./sandbox.ts";
import { timeout } from "./sandbox-requests.ts";

export const forkRequest = z.object({
  timeout: timeout.describe(`Seconds until the copies end; ${TIMEOUT_DEFAULT_V1_SECONDS} when absent`),
  count: z.int().min(1).max(FORK_COUNT_MAX).nullish().describe("Number of copies; default 1"),
});

/** One entry per requested copy; some may have failed. */
export const forkAnswer = z.array(z.union([z.object({ sandbox: createdSandbox }), z.object({ error: errorBody })]));

export type ForkAnswer = z.infer<typeof forkAnswer>;
