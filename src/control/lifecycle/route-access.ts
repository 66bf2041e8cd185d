/** Who is let through to a sandbox, as its row says. */
import type { Sandbox } from "../../store/sandboxes.ts";
import type { RouteAccess } from "../directory.ts";

export function accessOf({ teamId, network, trafficToken, secure }: Sandbox): RouteAccess {
  return {
    teamId,
    trafficToken,
    // Else nothing would guard it.
    guardsRuntime: trafficToken !== null && !secure,
    maskRequestHost: network.maskRequestHost ?? null,
    httpsPorts: network.httpsPorts ?? [],
  };
}
