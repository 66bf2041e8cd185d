/**
 * Responses of sandboxes from the server's own address, where the login pages are: to signed links, which a browser may
 * open, and to requests that name the sandbox in a header. Browsers would let them act for the whole address. So a
 * document from there runs no script and submits no form, no cache returns it for another request, and no header of it
 * is about the address.
 */
import type { HeaderLines } from "../../http1/header-lines.ts";

const ABOUT_ADDRESS: readonly string[] = [
  "accept-ch",
  "alt-svc",
  "clear-site-data",
  "nel",
  "origin-agent-cluster",
  "report-to",
  "strict-transport-security",
];

/** Headers of a service that stay behind. */
export const WITHHELD_OF_SERVICE: ReadonlySet<string> = new Set(ABOUT_ADDRESS);
/** Headers withheld from a runtime's response: it sets no cookie unless it was replaced. */
export const WITHHELD_OF_RUNTIME: ReadonlySet<string> = new Set([...ABOUT_ADDRESS, "set-cookie"]);

/** Adds the headers that the edge decides. Only links to a runtime can be opened without a header. */
export function addOwnAddressLines(lines: HeaderLines, isForRuntime: boolean): void {
  lines.append("vary", "E2b-Sandbox-Id, E2b-Sandbox-Port");
  if (isForRuntime) lines.append("content-security-policy", "sandbox");
}
