/** Teams and users: `GET /teams`, which `e2b auth login` calls, and their administration. */
import { z } from "zod";
import { keyName } from "./api-key.ts";
import { EMAIL_MAX_CHARS, TEAM_SLUG_MAX_CHARS } from "./limits.ts";

export const listedTeam = z.object({
  teamID: z.uuid(),
  name: z.string(),
  apiKey: z.string().describe("A new key of this team; only this response contains it"),
  isDefault: z.boolean(),
});

export const teamSlug = z
  .string()
  .max(TEAM_SLUG_MAX_CHARS)
  .regex(/^[a-z0-9][a-z0-9_-]*$/, "must consist of a-z, 0-9, - and _, and begin with a letter or digit")
  .describe(`1 to ${TEAM_SLUG_MAX_CHARS} of a-z, 0-9, - and _; the namespace of the team's templates, never changed`);

export const teamName = keyName.describe("Shown to people; need not be unique");

export const userEmail = z
  .string()
  .max(EMAIL_MAX_CHARS)
  .regex(/^[^\s@\p{C}]+@[^\s@\p{C}]+$/u, "must be an email address, such as ada@example.com")
  .toLowerCase()
  .describe("Stored in lower case");
