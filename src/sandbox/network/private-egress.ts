/** Network rules of unrestricted sandboxes, with the private networks that the operator opens to them. */
import type { Egress } from "../../contract/internal/host.ts";

export function openEgress(privateRanges: readonly string[] = []): Egress {
  if (privateRanges.length === 0) return "open";
  return { allowRanges: [], allowNames: [], denyRanges: [], proxy: null, privateRanges };
}

/** Whether the rules forbid something that an open sandbox may do. */
export function isRestricted(egress: Egress): boolean {
  if (typeof egress === "string") return egress !== "open";
  return egress.denyRanges.length > 0 || egress.proxy !== null;
}
