/** Reads and validates request bodies. Errors name each invalid field in the format that clients expect. */
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { Fault } from "../contract/fault.ts";
import { REQUEST_MAX_BYTES } from "./limits.ts";

export const EXECUTION = z.object({
  code: z.string(),
  context_id: z.string().nullish(),
  language: z.string().nullish(),
  env_vars: z.record(z.string(), z.string()).nullish(),
});

export const CONTEXT = z.object({ language: z.string().nullish(), cwd: z.string().nullish() });

interface InvalidField {
  type: string;
  loc: (string | number)[];
  msg: string;
}

/** Becomes status 422. */
export class InvalidFields extends Error {
  constructor(readonly detail: InvalidField[]) {
    super("the body does not fit");
  }
}

export async function bodyOf<T>(request: IncomingMessage, schema: z.ZodType<T>): Promise<T> {
  const text = await textOf(request);
  let json: unknown;
  try {
    json = JSON.parse(text === "" ? "{}" : text);
  } catch (error) {
    throw new InvalidFields([{ type: "json_invalid", loc: ["body"], msg: `JSON decode error: ${String(error)}` }]);
  }
  const { data, error } = schema.safeParse(json, { reportInput: true });
  if (error === undefined) return data;
  throw new InvalidFields(
    error.issues.map(({ path, message, input }) => ({
      type: input === undefined ? "missing" : "type_error",
      loc: ["body", ...path.map((part) => (typeof part === "symbol" ? String(part) : part))],
      msg: input === undefined ? "Field required" : message,
    })),
  );
}

async function textOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    bytes += piece.length;
    // Read and discard an oversized body, otherwise the response would be lost with the connection.
    if (bytes <= REQUEST_MAX_BYTES) pieces.push(piece);
  }
  if (bytes > REQUEST_MAX_BYTES) {
    const sizes = `${bytes} bytes; no more than ${REQUEST_MAX_BYTES} (REQUEST_MAX_BYTES) are taken`;
    throw new Fault(413, `the request has ${sizes}: write data to a file and read it from the code`);
  }
  return Buffer.concat(pieces).toString();
}
