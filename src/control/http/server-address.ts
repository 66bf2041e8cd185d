/**
 * The address at which the client reached this interface, for links back to it. The usual forwarding headers count only
 * from a proxy that the operator trusts.
 */
import type { Client } from "../access/authentication.ts";

const HOST = /^(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;
const PREFIX = /^(?:\/[\w.~-]+)+$/;

/** The server's address, without a trailing slash. */
export function baseOf({ url, headers }: Request, { fromTrustedProxy, isSecure }: Partial<Client> = {}): string {
  // Without a usable Host header the URL is the bare target.
  const own = /^(https?):\/\/([^/?#]+)/.exec(url);
  const forwarded = (name: string, pattern: RegExp) =>
    fromTrustedProxy === true ? firstOf(headers, name, pattern) : undefined;
  const scheme = forwarded("x-forwarded-proto", /^https?$/) ?? (isSecure === true ? "https" : (own?.[1] ?? "http"));
  const ownHost = own?.[2] !== undefined && HOST.test(own[2]) ? own[2] : undefined;
  const host = forwarded("x-forwarded-host", HOST) ?? ownHost ?? "localhost";
  return `${scheme}://${host}${forwarded("x-forwarded-prefix", PREFIX) ?? ""}`;
}

/** With several proxies, the one nearest to the client writes the first value. */
function firstOf(headers: Headers, name: string, pattern: RegExp): string | undefined {
  const [first = ""] = (headers.get(name) ?? "").split(",", 1);
  const value = first.trim().replace(/\/+$/, "");
  return pattern.test(value) ? value : undefined;
}
