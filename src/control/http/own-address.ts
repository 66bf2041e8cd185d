/**
 * Where the client has reached this interface, for links that lead back to it. A proxy in front says in the usual
 * headers what it was asked for. Whoever sends them gets a link of his own making, and nobody else does.
 */
const HOST = /^(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;
const PREFIX = /^(?:\/[\w.~-]+)+$/;

/** Without a slash at its end. */
export function baseOf({ url, headers }: Request): string {
  // Without a usable Host header the URL is the bare target.
  const own = /^(https?):\/\/([^/?#]+)/.exec(url);
  const scheme = firstOf(headers, "x-forwarded-proto", /^https?$/) ?? own?.[1] ?? "http";
  const host = firstOf(headers, "x-forwarded-host", HOST) ?? own?.[2] ?? "localhost";
  return `${scheme}://${host}${firstOf(headers, "x-forwarded-prefix", PREFIX) ?? ""}`;
}

/** Of several proxies the one that is nearest to the client has written first. */
function firstOf(headers: Headers, name: string, pattern: RegExp): string | undefined {
  const [first = ""] = (headers.get(name) ?? "").split(",", 1);
  const value = first.trim().replace(/\/+$/, "");
  return pattern.test(value) ? value : undefined;
}
