/** Who is let through to a private sandbox: whoever shows its traffic token. */
import { timingSafeEqual } from "node:crypto";
import type { RouteAccess } from "../../contract/internal/directory.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";

export const TRAFFIC_TOKEN_HEADER = "e2b-traffic-access-token";

/**
 * Undefined: the request may pass. Where the runtime asks for no token of its own, nothing on its port is excepted,
 * neither its health nor a signed link: nobody would look at the signature.
 */
export function trafficRefusal(
  { trafficToken, guardsRuntime }: RouteAccess,
  port: number,
  given: string | null,
): "traffic-token-missing" | "traffic-token-wrong" | undefined {
  if (trafficToken === null || (port === RUNTIME_PORT && !guardsRuntime)) return undefined;
  if (given === null || given === "") return "traffic-token-missing";
  return isSame(given, trafficToken) ? undefined : "traffic-token-wrong";
}

/** Tells by its time how long the right token is, which everybody may know, and nothing of what is in it. */
function isSame(given: string, right: string): boolean {
  const [givenBytes, rightBytes] = [Buffer.from(given), Buffer.from(right)];
  return givenBytes.length === rightBytes.length && timingSafeEqual(givenBytes, rightBytes);
}
