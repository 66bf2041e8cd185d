/** Workload identity of a sandbox in requests: named tokens that header rules can refer to. */
import { z } from "zod";
import { IDENTITY_AUDIENCE_MAX_CHARS, IDENTITY_TOKEN_NAME_MAX_CHARS, IDENTITY_TOKENS_MAX } from "./limits.ts";

interface IdentityToken {
  audience: string;
  tokenType: "JWT-SVID";
}

type IdentityTokens = Record<string, IdentityToken>;

/** As in the official client: a name is part of a placeholder. */
const NAME = /^[^{}\p{Cc}]+$/u;

const token = z.object({
  audience: z.string().min(1).max(IDENTITY_AUDIENCE_MAX_CHARS).describe("The service that the token is for"),
  tokenType: z.enum(["JWT-SVID"]),
});

/** Its keys are checked one by one, because a record would drop `__proto__` unseen. */
export const identityTokens = z
  .unknown()
  .superRefine((given, context) => {
    if (typeof given !== "object" || given === null || Array.isArray(given)) {
      context.addIssue({ code: "invalid_type", expected: "object", input: given });
      return;
    }
    const entries = Object.entries(given);
    const add = (path: PropertyKey[], message: string) => context.addIssue({ code: "custom", path, message });
    if (entries.length > IDENTITY_TOKENS_MAX) {
      add([], `must have at most ${IDENTITY_TOKENS_MAX} entries, got ${entries.length}`);
      return;
    }
    for (const [name, value] of entries) {
      if (name.length > IDENTITY_TOKEN_NAME_MAX_CHARS) {
        const got = name.length;
        add([name], `must have a name of at most ${IDENTITY_TOKEN_NAME_MAX_CHARS} characters, got ${got}`);
      } else if (!NAME.test(name))
        add([name], "must have a name that is not empty and holds no {, } or control character");
      for (const issue of token.safeParse(value).error?.issues ?? []) {
        context.addIssue({ ...issue, path: [name, ...issue.path] } as Parameters<typeof context.addIssue>[0]);
      }
    }
  })
  .meta({ type: "object", additionalProperties: z.toJSONSchema(token) }) as z.ZodType as z.ZodType<IdentityTokens>;
