/**
 * What a client may ask for when it creates a sandbox. Optional members take null for "not given", because some clients send
 * it; members that are not named here are ignored.
 */
import { z } from "zod";
import {
  ENV_TOTAL_MAX_BYTES,
  ENV_VARIABLE_MAX_BYTES,
  TEMPLATE_REFERENCE_MAX_CHARS,
  TIMEOUT_DEFAULT_V1_SECONDS,
  TIMEOUT_DEFAULT_V2_SECONDS,
} from "./limits.ts";

const NUL = "\u0000";

const metadata = z.record(z.string(), z.string());

const variableName = z.string().refine((name) => name !== "" && !name.includes("=") && !name.includes(NUL), {
  error: 'names of variables must not be empty and must hold neither "=" nor NUL',
});
const variableValue = z.string().refine((value) => !value.includes(NUL), { error: "must not hold NUL" });
/** The kernel takes no single variable above 128 KiB; more than the total would leave no room for a command's arguments. */
const envVars = z
  .record(variableName, variableValue)
  .refine((given) => Object.entries(given).every(([name, value]) => bytes(name, value) < ENV_VARIABLE_MAX_BYTES), {
    error: `no variable may take more than ${ENV_VARIABLE_MAX_BYTES} bytes, name and value together`,
  })
  .refine((given) => Object.entries(given).reduce((sum, [n, v]) => sum + bytes(n, v), 0) <= ENV_TOTAL_MAX_BYTES, {
    error: `all variables together may take ${ENV_TOTAL_MAX_BYTES} bytes`,
  });

function bytes(name: string, value: string): number {
  return Buffer.byteLength(name) + Buffer.byteLength(value) + 2;
}

const network = z.looseObject({
  allowPublicTraffic: z.boolean().nullish(),
  allowOut: z.array(z.string()).nullish(),
  denyOut: z.array(z.string()).nullish(),
  maskRequestHost: z.string().nullish(),
  egressProxy: z.looseObject({}).nullish(),
  rules: z.looseObject({}).nullish(),
  httpsPorts: z.array(z.int()).nullish(),
});

const shared = {
  templateID: z
    .string()
    .min(1)
    .max(TEMPLATE_REFERENCE_MAX_CHARS)
    .describe("[namespace/]alias or template id, optionally with :tag or :build-id"),
  metadata: metadata.nullish().describe("Free-form strings that lists can be filtered by"),
  envVars: envVars.nullish().describe("Variables of every process in the sandbox"),
  allow_internet_access: z.boolean().nullish().describe("False: no packet leaves the sandbox"),
  mcp: z.looseObject({}).nullish().describe("Kept with the sandbox; the client starts its gateway itself"),
  autoPause: z.boolean().nullish().describe("True: at the end of its timeout the sandbox is paused, not killed"),
  autoPauseMemory: z.boolean().nullish().describe("False: that pause keeps files only, and no traffic can end it"),
  autoResume: z
    .looseObject({ enabled: z.boolean().nullish() })
    .nullish()
    .describe("Enabled: a request to the paused sandbox resumes it"),
  network: network.nullish(),
  volumeMounts: z.array(z.looseObject({})).nullish(),
  iam: z.looseObject({ tokens: z.looseObject({}).nullish() }).nullish(),
};

export const createSandboxV1 = z.object({
  ...shared,
  timeout: z
    .int32()
    .min(0)
    .nullish()
    .describe(
      `Seconds until the sandbox ends or is paused; ${TIMEOUT_DEFAULT_V1_SECONDS} when absent, 0 ends it at once`,
    ),
  secure: z.boolean().nullish().describe("True: the runtime demands the token that this call answers"),
});

export const createSandboxV2 = z.object({
  ...shared,
  timeout: z
    .int32()
    .min(1)
    .nullish()
    .describe(`Seconds until the sandbox ends or is paused; ${TIMEOUT_DEFAULT_V2_SECONDS} when absent`),
});

export type CreateSandboxV1 = z.infer<typeof createSandboxV1>;
export type CreateSandboxV2 = z.infer<typeof createSandboxV2>;
