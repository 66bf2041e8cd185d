/** Any web page may call the runtime, without credentials. Browsers send no token with a preflight. */
import { RUNTIME_CORS_MAX_AGE_SECONDS, RUNTIME_CORS_METHODS } from "../contract/runtime/cors.ts";

const EXPOSED =
  "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Location, Cache-Control, X-Content-Type-Options, X-Request-Id";

export function preflightResponse(request: Request): Response | undefined {
  const asks = request.headers.get("access-control-request-method");
  if (request.method !== "OPTIONS" || asks === null || !request.headers.has("origin")) return undefined;
  const headers = new Headers({
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": RUNTIME_CORS_METHODS,
    "Access-Control-Max-Age": RUNTIME_CORS_MAX_AGE_SECONDS,
    Vary: "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
  });
  const wanted = request.headers.get("access-control-request-headers");
  if (wanted !== null) headers.set("Access-Control-Allow-Headers", wanted);
  return new Response(null, { status: 204, headers });
}

export function allowOrigin(request: Request, response: Response): Response {
  if (!request.headers.has("origin")) return response;
  response.headers.set("Access-Control-Allow-Origin", "*");
  response.headers.set("Access-Control-Expose-Headers", EXPOSED);
  response.headers.append("Vary", "Origin");
  return response;
}
