/**
 * The request to create a sandbox. Optional fields accept null, because some clients send it; unknown fields are
 * ignored.
 */
import { z } from "zod";
import { identityTokens } from "./identity.ts";
import {
  ENV_TOTAL_MAX_BYTES,
  ENV_VARIABLE_MAX_BYTES,
  MCP_MAX_BYTES,
  METADATA_ENTRIES_MAX,
  METADATA_KEY_MAX_CHARS,
  METADATA_MAX_BYTES,
  TEMPLATE_REFERENCE_MAX_CHARS,
  TIMEOUT_DEFAULT_V1_SECONDS,
  TIMEOUT_DEFAULT_V2_SECONDS,
} from "./limits.ts";
import { network } from "./network.ts";
import { flag, timeout } from "./sandbox-requests.ts";
import { stringMap } from "./string-map.ts";

const NUL = "\u0000";

const metadata = stringMap(function* (given) {
  const entries = Object.entries(given);
  if (entries.length > METADATA_ENTRIES_MAX) {
    yield { message: `must have at most ${METADATA_ENTRIES_MAX} entries, got ${entries.length}` };
  }
  const longest = Math.max(0, ...entries.slice(0, METADATA_ENTRIES_MAX).map(([key]) => key.length));
  if (longest > METADATA_KEY_MAX_CHARS) {
    yield { message: `must have keys of at most ${METADATA_KEY_MAX_CHARS} characters, got one of ${longest}` };
  }
  const size = entries.reduce((sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value), 0);
  if (size > METADATA_MAX_BYTES) {
    yield { message: `must hold at most ${METADATA_MAX_BYTES} bytes of keys and values, got ${size}` };
  }
});

/** Variables that no process could start with are rejected here, where the client gets an error. */
const envVars = stringMap(function* (given) {
  let total = 0;
  for (const [name, value] of Object.entries(given)) {
    if (name === "" || name.includes("=") || name.includes(NUL)) {
      yield { message: 'must have names that are not empty and hold neither "=" nor NUL' };
    } else if (value.includes(NUL)) yield { key: name, message: "must not hold NUL" };
    // As the kernel counts: NAME=VALUE and a NUL.
    const size = Buffer.byteLength(name) + Buffer.byteLength(value) + 2;
    if (size > ENV_VARIABLE_MAX_BYTES) {
      const most = ENV_VARIABLE_MAX_BYTES;
      yield { key: name, message: `must take at most ${most} bytes as NAME=VALUE with a NUL, got ${size}` };
    }
    total += size;
  }
  if (total > ENV_TOTAL_MAX_BYTES) {
    yield { message: `must take at most ${ENV_TOTAL_MAX_BYTES} bytes together, got ${total}` };
  }
});

const shared = {
  templateID: z
    .string()
    .min(1)
    .max(TEMPLATE_REFERENCE_MAX_CHARS)
    .describe("[namespace/]alias or template id, optionally with :tag or :build-id"),
  metadata: metadata.nullish().describe("Free-form strings for filters of lists"),
  envVars: envVars.nullish().describe("Variables of every process in the sandbox"),
  allow_internet_access: flag.describe("False: blocks outgoing traffic except to entries of network.allowOut"),
  mcp: z
    .looseObject({})
    .superRefine((given, context) => {
      const bytes = new TextEncoder().encode(JSON.stringify(given)).length;
      if (bytes <= MCP_MAX_BYTES) return;
      const message = `must have at most ${MCP_MAX_BYTES} bytes as JSON, got ${bytes}`;
      context.addIssue({ code: "custom", message, input: given });
    })
    .nullish()
    .describe("Stored with the sandbox; the client itself starts the gateway"),
  autoPause: flag.describe("True: at the end of its timeout the sandbox is paused, not killed"),
  autoPauseMemory: flag.describe("False: that pause keeps only files, and traffic does not resume the sandbox"),
  autoResume: z
    .looseObject({ enabled: z.boolean().nullish() })
    .nullish()
    .describe("Enabled: a request to the paused sandbox resumes it"),
  network: network.nullish().describe("Rules for outgoing traffic and for access to its ports"),
  volumeMounts: z
    .array(z.looseObject({ name: z.string(), path: z.string() }))
    .nullish()
    .describe("Volumes by name, each at a separate absolute path"),
  iam: z
    .looseObject({ tokens: identityTokens.nullish() })
    .nullish()
    .describe("Workload identity: tokens that network.rules can refer to"),
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
  secure: flag.describe("True: the runtime requires the token in the response"),
});

export const createSandboxV2 = z.object({
  ...shared,
  timeout: timeout.describe(`Seconds until the sandbox ends or is paused; ${TIMEOUT_DEFAULT_V2_SECONDS} when absent`),
});

export type CreateSandboxV1 = z.infer<typeof createSandboxV1>;
export type CreateSandboxV2 = z.infer<typeof createSandboxV2>;
