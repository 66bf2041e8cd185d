/** Who is let through to a sandbox, as its row says. */
import type { Sandbox } from "../../store/sandboxes.ts";
import type { RouteAccess } from "../directory.ts";

export function accessOf(_sandbox: Sandbox): RouteAccess {
  return { trafficToken: null, guardsRuntime: false, maskRequestHost: null, httpsPorts: [] };
}
