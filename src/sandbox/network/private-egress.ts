/** Sandboxes to which nothing is closed but what is closed to all, with the private networks that are open to them. */
import type { Egress } from "../../contract/internal/host.ts";

export function openEgress(privateRanges: readonly string[] = []): Egress {
  if (privateRanges.length === 0) return "open";
  return { allowRanges: [], allowNames: [], denyRanges: [], proxy: null, privateRanges };
}

/** Whether something may not leave that leaves an open sandbox. */
export function isRestricted(egress: Egress): boolean {
  if (typeof egress === "string") return egress !== "open";
  return egress.denyRanges.length > 0 || egress.proxy !== null;
}
