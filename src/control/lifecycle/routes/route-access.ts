/** Who is let through to a sandbox, as its row says. */

import type { RouteAccess } from "../../../contract/internal/directory.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";

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
