/** Requests about existing sandboxes and their list. */
import { z } from "zod";
import { dateTime, page } from "./identifiers.ts";
import {
  REFRESH_DEFAULT_SECONDS,
  REFRESH_MAX_SECONDS,
  TEMPLATE_REFERENCE_MAX_CHARS,
  TIMEOUT_DEFAULT_V1_SECONDS,
  TIMEOUT_DEFAULT_V2_SECONDS,
} from "./limits.ts";

export const flag = z.boolean().nullish();
const memory = flag.describe("False: boot a paused sandbox from its files and ignore its saved memory");
export const timeout = z.int32().min(1).nullish();

export const connectSandboxV1 = z.object({
  timeout: z.int32().min(0).describe("Seconds from now until the sandbox ends"),
  memory,
});

export const connectSandboxV2 = z.object({
  timeout: timeout.describe(
    `Seconds from now that the sandbox lives at least; ${TIMEOUT_DEFAULT_V2_SECONDS} when absent`,
  ),
  memory,
});

export const resumeSandbox = z.object({
  timeout: timeout.describe(`Seconds from now until the sandbox ends; ${TIMEOUT_DEFAULT_V1_SECONDS} when absent`),
  autoPause: flag.describe("Action at the end of the timeout; default: unchanged"),
  memory,
});

export const pauseSandbox = z.object({
  memory: flag.describe("False: keep only files; the sandbox boots at its resume"),
});

export const setTimeoutRequest = z.object({
  timeout: z.int32().min(0).describe("Seconds from now until the sandbox ends, shorter or longer than before"),
});

export const refreshRequest = z.object({
  duration: z
    .int()
    .min(0)
    .max(REFRESH_MAX_SECONDS)
    .nullish()
    .describe(`Seconds from now that the sandbox lives at least; ${REFRESH_DEFAULT_SECONDS} when absent`),
});

const metadata = z
  .string()
  .optional()
  .describe(
    "k=v&k2=v2 with keys and values percent-encoded, and the whole percent-encoded again; all pairs must match",
  );

export const listSandboxesV1Query = z.object({ metadata });

export const listSandboxesV2Query = z.object({
  metadata,
  state: z
    .array(z.enum(["running", "paused"]))
    .optional()
    .describe("Comma-separated; both when absent"),
  order: z.enum(["asc", "desc"]).default("desc").describe("By start time"),
  startedAfter: dateTime.optional().describe("Inclusive"),
  template: z.string().max(TEMPLATE_REFERENCE_MAX_CHARS).optional().describe("Template id or [namespace/]alias"),
  ...page,
});

export type ListSandboxesV2Query = z.infer<typeof listSandboxesV2Query>;
