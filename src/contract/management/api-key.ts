/** API keys of a team and access tokens of a user. Only the response to their creation holds the secret. */
import { z } from "zod";
import { dateTime } from "./identifiers.ts";
import { KEY_NAME_MAX_CHARS } from "./limits.ts";

/** Operators list names on a terminal, which interprets control characters. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u2028\u2029]/u;

export const keyName = z
  .string()
  .max(KEY_NAME_MAX_CHARS)
  .refine((name) => name.trim() !== "", { error: "must not be blank" })
  .refine((name) => !UNPRINTABLE.test(name), { error: "must not hold control characters or broken Unicode" })
  .describe(`1 to ${KEY_NAME_MAX_CHARS} characters; need not be unique`);

export const namedKey = z.object({ name: keyName });

const mask = z
  .object({
    prefix: z.string().describe("Common prefix of all secrets of this kind"),
    valueLength: z.int().describe("Characters after the prefix"),
    maskedValuePrefix: z.string().describe("The first of them"),
    maskedValueSuffix: z.string().describe("The last of them"),
  })
  .describe("Parts of a secret that are safe to show");

const user = z.object({ id: z.uuid(), email: z.string().nullable() });

const shared = { id: z.uuid(), name: z.string(), mask, createdAt: dateTime };

export const apiKeyView = z.object({
  ...shared,
  createdBy: user.optional().describe("Absent if the creator is unknown"),
  lastUsed: dateTime.optional().describe("To the minute; absent if unused"),
});

export const createdApiKey = apiKeyView.extend({ key: z.string().describe("The key; only this response contains it") });

export const createdAccessToken = z.object({
  ...shared,
  token: z.string().describe("The token; only this response contains it"),
});

export type ApiKeyView = z.infer<typeof apiKeyView>;
