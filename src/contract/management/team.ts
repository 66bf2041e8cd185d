/** GET /teams, used by `e2b auth login`. */
import { z } from "zod";

export const listedTeam = z.object({
  teamID: z.uuid(),
  name: z.string(),
  apiKey: z.string().describe("A new key of this team; only this response contains it"),
  isDefault: z.boolean(),
});
