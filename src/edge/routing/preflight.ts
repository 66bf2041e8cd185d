/**
 * A browser's question whether it may send a request to a runtime. It carries none of the headers that it asks about:
 * not the one that names a sandbox, and not the token of a private one. So it is answered here, as every runtime would.
 */
import { RUNTIME_CORS_MAX_AGE_SECONDS, RUNTIME_CORS_METHODS } from "../../contract/runtime/cors.ts";
import type { ReadHeaders } from "../../http1/header-lines.ts";
import { SANDBOX_ID_HEADER } from "./sandbox-address.ts";

interface Asked {
  method: string;
  headers: ReadHeaders;
}

/** The headers that are asked for, the one that names a sandbox among them; undefined: no such question. */
export function preflightOf(request: Asked): string | undefined {
  const asked = headersAskedFor(request);
  const names = asked?.split(",").map((name) => name.trim().toLowerCase());
  return names?.includes(SANDBOX_ID_HEADER) ? asked : undefined;
}

/** Undefined: the request is no question of a browser at all. */
export function headersAskedFor({ method, headers }: Asked): string | undefined {
  if (method !== "OPTIONS" || !headers.has("access-control-request-method")) return undefined;
  return headers.get("access-control-request-headers") ?? "";
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
