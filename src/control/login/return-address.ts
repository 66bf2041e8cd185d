/**
 * The address to which a login returns: a program on the computer of the browser, such as `e2b auth login`. No other
 * address gets a token.
 */
import { Fault } from "../../contract/fault.ts";
import { quoted } from "../../contract/quoted-text.ts";

const RETURN_ADDRESS_MAX_CHARS = 256;
const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** Fault 400 for an address that is not `http://localhost:PORT`, `http://127.0.0.1:PORT` or `http://[::1]:PORT`. */
export function returnAddress(given: string | null): string {
  const url = given !== null && given.length <= RETURN_ADDRESS_MAX_CHARS ? URL.parse(given) : null;
  const isOpen =
    url !== null &&
    url.protocol === "http:" &&
    LOOPBACK.includes(url.hostname) &&
    url.username + url.password + url.search + url.hash === "" &&
    url.pathname === "/" &&
    Number(url.port) > 0;
  if (isOpen) return url.origin;
  throw new Fault(
    400,
    `The parameter next must be http://localhost:PORT, the address of a program on your computer, not ${quoted(given ?? "nothing")}; ` +
      "run e2b auth login and open the address that it prints.",
  );
}

/** The source expression for a Content-Security-Policy, which knows no IPv6 addresses. */
export function policySource(address: string): string {
  return address.includes("[") ? "http:" : address;
}
