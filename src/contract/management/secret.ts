/** Secrets of a team: values that only header rules use. No response has a value. */
import { z } from "zod";
import { dateTime, page } from "./identifiers.ts";
import {
  SECRET_METADATA_ENTRIES_MAX,
  SECRET_METADATA_KEY_MAX_BYTES,
  SECRET_METADATA_MAX_BYTES,
  SECRET_METADATA_VALUE_MAX_BYTES,
  SECRET_NAME_MAX_CHARS,
  SECRET_VALUE_MAX_BYTES,
} from "./limits.ts";
import { stringMap } from "./string-map.ts";

export const SECRET_ID_PREFIX = "sec_";

const name = z
  .string()
  .min(1)
  .max(SECRET_NAME_MAX_CHARS)
  .regex(/^[a-zA-Z0-9_-]+$/, "must consist of a-z, A-Z, 0-9, _ and -")
  .refine((given) => !given.toLowerCase().startsWith(SECRET_ID_PREFIX), {
    message: `must not begin with ${SECRET_ID_PREFIX}, as ids of secrets do`,
  });

const value = z
  .string()
  .min(1)
  .superRefine((given, context) => {
    const bytes = Buffer.byteLength(given);
    if (bytes <= SECRET_VALUE_MAX_BYTES) return;
    context.addIssue({ code: "custom", message: `must have at most ${SECRET_VALUE_MAX_BYTES} bytes, got ${bytes}` });
  });

const metadata = stringMap(function* (given) {
  const entries = Object.entries(given);
  if (entries.length > SECRET_METADATA_ENTRIES_MAX) {
    yield { message: `must have at most ${SECRET_METADATA_ENTRIES_MAX} entries, got ${entries.length}` };
    return;
  }
  let total = 0;
  for (const [key, text] of entries) {
    const [keyBytes, bytes] = [Buffer.byteLength(key), Buffer.byteLength(text)];
    total += keyBytes + bytes;
    if (keyBytes > SECRET_METADATA_KEY_MAX_BYTES) {
      yield { message: `must have keys of at most ${SECRET_METADATA_KEY_MAX_BYTES} bytes, got one of ${keyBytes}` };
    }
    if (bytes > SECRET_METADATA_VALUE_MAX_BYTES) {
      yield { key, message: `must have at most ${SECRET_METADATA_VALUE_MAX_BYTES} bytes, got ${bytes}` };
    }
  }
  if (total > SECRET_METADATA_MAX_BYTES) {
    yield { message: `must hold at most ${SECRET_METADATA_MAX_BYTES} bytes of keys and values, got ${total}` };
  }
});

export const createSecret = z.object({
  name: name.describe("Unique in the team, in lower case"),
  value: value.describe("Never shown"),
  metadata: metadata.nullish().describe("Free-form strings"),
});

export const updateSecret = z.object({
  value: value.describe("The new version; never shown"),
  metadata: metadata.nullish().describe("Replaces the metadata; default: unchanged"),
});

export const secretView = z.object({
  secretID: z.string(),
  name: z.string(),
  currentVersion: z.int().min(1),
  metadata: stringMap(),
  createdAt: dateTime,
  updatedAt: dateTime,
});

export const listSecretsQuery = z.object(page);

export const secretUse = z.object({
  sandboxID: z.string(),
  version: z.int().min(1),
  host: z.string().describe("The host of the requests, or the rule's pattern beyond the first hosts of a sandbox"),
  count: z.int().min(1).describe("Requests"),
  firstAt: dateTime,
  lastAt: dateTime,
});

export type SecretView = z.infer<typeof secretView>;
export type SecretUseView = z.infer<typeof secretUse>;
export type ListSecretsQuery = z.infer<typeof listSecretsQuery>;
