/** Access rules of a sandbox's route, from its row. */

import type { RouteAccess } from "../../../contract/internal/directory.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";

export function accessOf({ teamId, network, trafficToken, secure }: Sandbox): RouteAccess {
  return {
    teamId,
    trafficToken,
    // The runtime port has no token of its own then, so the traffic token guards it.
    guardsRuntime: trafficToken !== null && !secure,
    maskRequestHost: network.maskRequestHost ?? null,
    httpsPorts: network.httpsPorts ?? [],
  };
}
