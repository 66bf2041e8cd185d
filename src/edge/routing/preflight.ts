/**
 * CORS preflights to a runtime. A preflight carries none of the headers that it asks about: neither the one that names
 * a sandbox nor the token of a private one. So the edge responds as every runtime would.
 */
import { RUNTIME_CORS_MAX_AGE_SECONDS, RUNTIME_CORS_METHODS } from "../../contract/runtime/cors.ts";
import type { ReadHeaders } from "../../http1/header-lines.ts";
import { SANDBOX_ID_HEADER } from "./sandbox-address.ts";

interface Preflight {
  method: string;
  headers: ReadHeaders;
}

/** The requested headers, if they include the one that names a sandbox; undefined: not such a preflight. */
export function preflightOf(request: Preflight): string | undefined {
  const requested = headersAskedFor(request);
  const names = requested?.split(",").map((name) => name.trim().toLowerCase());
  return names?.includes(SANDBOX_ID_HEADER) ? requested : undefined;
}

/** Undefined: not a preflight. */
export function headersAskedFor({ method, headers }: Preflight): string | undefined {
  if (method !== "OPTIONS" || !headers.has("access-control-request-method")) return undefined;
  return headers.get("access-control-request-headers") ?? "";
}

export function preflightResponse(allowedHeaders: string): Response {
  return new Response(null, {
    status: 204,
    headers: {
      "Access-Control-Allow-Origin": "*",
      "Access-Control-Allow-Methods": RUNTIME_CORS_METHODS,
      "Access-Control-Allow-Headers": allowedHeaders,
      "Access-Control-Max-Age": RUNTIME_CORS_MAX_AGE_SECONDS,
      Vary: "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    },
  });
}
