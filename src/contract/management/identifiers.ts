/** Fields that many messages of the management API have: identifiers, times, pages of a list. */
import { z } from "zod";
import { ID_CHARS, SANDBOX_ID, TEMPLATE_ID } from "../ids.ts";
import { PAGE_MAX, PAGE_TOKEN_MAX_CHARS } from "./limits.ts";

/** Deprecated, but required by clients: the same for every sandbox. */
export const CLIENT_ID = "6532622b";

export const API_KEY_PREFIX = "e2b_";
export const ACCESS_TOKEN_PREFIX = "sk_e2b_";
export const ADMIN_TOKEN_PREFIX = "sandlot_admin_";
/** Characters after the prefix of a key or token: 20 random bytes in hex. */
export const SECRET_HEX_CHARS = 40;

export const templateId = z.string().regex(TEMPLATE_ID, `must be ${ID_CHARS} characters of a-z and 0-9`);
export const sandboxId = z.string().regex(SANDBOX_ID, "must consist of a-z and 0-9");
/** Ids of teams, users, keys, builds and webhooks, in upper or lower case. */
export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
export const dateTime = z.iso.datetime({ offset: true });

/** Parameters of a list's query. */
export const page = {
  limit: z.int32().min(1).max(PAGE_MAX).default(PAGE_MAX),
  nextToken: z.string().max(PAGE_TOKEN_MAX_CHARS).optional().describe("X-Next-Token of the previous page"),
};
