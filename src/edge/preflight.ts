/**
 * A browser's question whether it may send a request with the header that names a sandbox. The question itself names
 * none, so it is answered here, as every runtime would.
 */
import { RUNTIME_CORS_MAX_AGE_SECONDS, RUNTIME_CORS_METHODS } from "../contract/runtime/cors.ts";
import { SANDBOX_ID_HEADER } from "./sandbox-address.ts";

/** The headers that are asked for; undefined: the request is no such question. */
export function preflightOf({ method, headers }: Request): string | undefined {
  if (method !== "OPTIONS" || !headers.has("access-control-request-method")) return undefined;
  const asked = headers.get("access-control-request-headers") ?? "";
  const names = asked.split(",").map((name) => name.trim().toLowerCase());
  return names.includes(SANDBOX_ID_HEADER) ? asked : undefined;
}

export function answerPreflight(asked: string): Response {
  return new Response(null, {
    status: 204,
    headers: {
      "Access-Control-Allow-Origin": "*",
      "Access-Control-Allow-Methods": RUNTIME_CORS_METHODS,
      "Access-Control-Allow-Headers": asked,
      "Access-Control-Max-Age": RUNTIME_CORS_MAX_AGE_SECONDS,
      Vary: "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    },
  });
}
