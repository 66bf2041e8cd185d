/**
 * Rejects forms that do not come from this server's own pages. A page of a sandbox may be of the same site: its forms
 * get SameSite cookies, and without TLS it can replace them with its own.
 */
import { Fault } from "../../contract/fault.ts";
import type { PageRequest } from "../http/page.ts";

/**
 * Fault 403 for the form of another page. Browsers send Sec-Fetch-Site over TLS and to loopback addresses, and Origin
 * with every form; programs send neither.
 */
export function requireOwnPage({ headers, url }: Request, { base }: PageRequest): void {
  const [site, origin] = [headers.get("sec-fetch-site"), headers.get("origin")];
  // A server with a public address may have other names, and a proxy in front may change the name.
  const own = [base, url].map((address) => URL.parse(address)?.host);
  const isForeign =
    site === null ? origin !== null && !own.includes(URL.parse(origin)?.host ?? "") : site !== "same-origin";
  if (isForeign) {
    throw new Fault(403, "Another page sent this form. Open the address of the login again, and sign in there.");
  }
}
