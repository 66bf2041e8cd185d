/** The body of every error response. */
import { z } from "zod";

export const errorBody = z
  .object({
    code: z.int().describe("The HTTP status, repeated"),
    message: z.string().describe("What was wrong and what to do"),
    error_code: z.string().optional().describe("Machine-readable detail; an open set"),
  })
  .describe("Error");
