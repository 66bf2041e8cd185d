/** Parses `host:port` of an egress proxy. */
import { domainPattern } from "../domain-pattern.ts";
import { isIpv4 } from "../ip-range.ts";
import { PORT_MAX } from "./limits.ts";

/** The host in lower case: a name, or an IPv4 address. Undefined: not a proxy address. */
export function readProxyAddress(text: string): { host: string; port: number } | undefined {
  const [, written = "", digits = ""] = /^([^:]+):([1-9]\d{0,4})$/.exec(text) ?? [];
  const host = isIpv4(written) ? written : domainPattern(written);
  const port = Number(digits);
  if (host === undefined || host.startsWith("*") || port < 1 || port > PORT_MAX) return undefined;
  return { host, port };
}

/** The problem, as far as it shows without DNS, in words that follow the field's name. */
export function proxyAddressProblem(text: string): string | undefined {
  if (readProxyAddress(text) !== undefined) return undefined;
  return `must be host:port, the host a name or an IPv4 address, the port from 1 to ${PORT_MAX}; without scheme or user`;
}
