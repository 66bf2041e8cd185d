/** GET /teams, used by `e2b auth login`. */
import { z } from "zod";

export const listedTeam = z.object({
  teamID: z.uuid(),
  name: z.string(),
  apiKey: z.string().describe("A fresh key of this team, shown this once"),
  isDefault: z.boolean(),
});
