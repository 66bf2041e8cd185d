/** Checks the traffic token of a private sandbox. */
import { timingSafeEqual } from "node:crypto";
import type { RouteAccess } from "../../contract/internal/directory.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";

export const TRAFFIC_TOKEN_HEADER = "e2b-traffic-access-token";

/**
 * Undefined: the request may pass. If the runtime requires no token of its own, nothing on its port is exempt, neither
 * its health check nor a signed link: nothing would check the signature.
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

/** Its timing reveals the length of the token, which is public, and nothing of its content. */
function isSame(given: string, right: string): boolean {
  const [givenBytes, rightBytes] = [Buffer.from(given), Buffer.from(right)];
  return givenBytes.length === rightBytes.length && timingSafeEqual(givenBytes, rightBytes);
}
