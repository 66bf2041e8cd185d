/**
 * Where the client has reached this interface, for links that lead back to it. A proxy in front says in the usual
 * headers what it was asked for, and is believed if the operator trusts it; from anybody else they mean nothing.
 */
import type { Client } from "../access/client.ts";

const HOST = /^(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;
const PREFIX = /^(?:\/[\w.~-]+)+$/;

/** Without a slash at its end. */
export function baseOf({ url, headers }: Request, { fromTrustedProxy, isSecure }: Partial<Client> = {}): string {
  // Without a usable Host header the URL is the bare target.
  const own = /^(https?):\/\/([^/?#]+)/.exec(url);
  const told = (name: string, pattern: RegExp) =>
    fromTrustedProxy === true ? firstOf(headers, name, pattern) : undefined;
  const scheme = told("x-forwarded-proto", /^https?$/) ?? (isSecure === true ? "https" : (own?.[1] ?? "http"));
  const asked = own?.[2] !== undefined && HOST.test(own[2]) ? own[2] : undefined;
  const host = told("x-forwarded-host", HOST) ?? asked ?? "localhost";
  return `${scheme}://${host}${told("x-forwarded-prefix", PREFIX) ?? ""}`;
}

/** Of several proxies the one that is nearest to the client has written first. */
function firstOf(headers: Headers, name: string, pattern: RegExp): string | undefined {
  const [first = ""] = (headers.get(name) ?? "").split(",", 1);
  const value = first.trim().replace(/\/+$/, "");
  return pattern.test(value) ? value : undefined;
}
