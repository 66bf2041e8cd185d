/** Workload identity of a sandbox in requests: named tokens that header rules can refer to. */
import { z } from "zod";
import { IDENTITY_AUDIENCE_MAX_CHARS, IDENTITY_TOKEN_NAME_MAX_CHARS, IDENTITY_TOKENS_MAX } from "./limits.ts";
import { objectMap } from "./object-map.ts";

/** As in the official client: a name is part of a placeholder. */
const NAME = /^[^{}\p{Cc}]+$/u;

const token = z.object({
  audience: z.string().min(1).max(IDENTITY_AUDIENCE_MAX_CHARS).describe("The service that the token is for"),
  tokenType: z.enum(["JWT-SVID"]),
});

export const identityTokens = objectMap(token, function* (names) {
  if (names.length > IDENTITY_TOKENS_MAX) {
    yield { message: `must have at most ${IDENTITY_TOKENS_MAX} entries, got ${names.length}` };
  }
  const longest = Math.max(0, ...names.map(({ length }) => length));
  if (longest > IDENTITY_TOKEN_NAME_MAX_CHARS) {
    yield { message: `must have names of at most ${IDENTITY_TOKEN_NAME_MAX_CHARS} characters, got one of ${longest}` };
  }
  for (const name of names) {
    if (NAME.test(name)) continue;
    yield { name, message: "must have a name that is not empty and holds no {, } or control character" };
  }
});
