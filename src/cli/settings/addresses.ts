/** Addresses of the server for clients: listeners, the domain and its certificate, public URLs, and trusted proxies. */
import { isIP } from "node:net";
import { Fault } from "../../contract/fault.ts";
import { ipv4Range, isIpv6Range } from "../../contract/ip-range.ts";

/** A host name has 253 characters, and a port, a sandbox id and a suffix of older clients precede the domain. */
const DOMAIN_MAX_CHARS = 180;

export interface Listen {
  hostname: string;
  port: number;
}

export interface Addresses {
  domain: string;
  tlsListen: Listen;
  /** The operator's files. Undefined: those of `sandlot tls`, if any. */
  certificate: { cert: string; key: string } | undefined;
  trustedProxies: string[];
  /** URL of the management API for clients, without a trailing slash. Undefined: the address of each request. */
  publicUrl: string | undefined;
  /** URL of sandboxes for clients; PORT-ID. precedes its host name. Undefined: `publicUrl`. */
  publicSandboxUrl: string | undefined;
}

type AddressKey = "domain" | "tlsListen" | "tlsCert" | "tlsKey" | "trustedProxies" | "publicUrl" | "publicSandboxUrl";

export function parseAddresses(value: (key: AddressKey) => string | undefined): Addresses {
  const domain = value("domain");
  const certificate = parseCertificate(value("tlsCert"), value("tlsKey"));
  if (certificate !== undefined && domain === undefined) {
    throw new Fault(400, `tlsCert needs domain as well: the name that ${certificate.cert} is for, without "*."`);
  }
  return {
    domain: parseDomain(domain ?? "sandlot.localhost"),
    tlsListen: parseListen("tlsListen", value("tlsListen") ?? "127.0.0.1:443"),
    certificate,
    trustedProxies: parseRanges(value("trustedProxies") ?? ""),
    publicUrl: parsePublicUrl("publicUrl", value("publicUrl"), /^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)*$/),
    publicSandboxUrl: parsePublicUrl("publicSandboxUrl", value("publicSandboxUrl"), /^$/),
  };
}

export function parseListen(key: string, text: string): Listen {
  const match = /^(?:\[([0-9a-fA-F:]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  const hostname = match?.[1] ?? match?.[2];
  if (hostname === undefined || !(port >= 1 && port <= 65_535)) {
    throw new Fault(400, `${key} must look like 127.0.0.1:3000 or [::1]:3000, not "${text}"`);
  }
  return { hostname, port };
}

function parseDomain(text: string): string {
  const name = text.toLowerCase();
  const label = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
  const isName = new RegExp(`^${label}(?:\\.${label})+$`).test(name) && isIP(name) === 0;
  if (isName && name.length <= DOMAIN_MAX_CHARS) return name;
  const bound = `at most ${DOMAIN_MAX_CHARS} characters`;
  throw new Fault(400, `domain must be a host name with a dot such as sandboxes.example.com, ${bound}, not "${text}"`);
}

function parseCertificate(cert: string | undefined, key: string | undefined): Addresses["certificate"] {
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined) throw new Fault(400, `tlsKey is ${key}, but tlsCert is missing: set both or none`);
  if (key === undefined) throw new Fault(400, `tlsCert is ${cert}, but tlsKey is missing: set both or none`);
  for (const [name, path] of [
    ["tlsCert", cert],
    ["tlsKey", key],
  ]) {
    if (!path?.startsWith("/")) throw new Fault(400, `${name} must be an absolute path, not "${path}"`);
  }
  return { cert, key };
}

/** `path`: what may follow the host. */
function parsePublicUrl(key: string, text: string | undefined, path: RegExp): string | undefined {
  if (text === undefined) return undefined;
  const url = URL.parse(text);
  const [origin = "", rest = ""] = [url?.origin, text.replace(/^https?:\/\/[^/?#]*/i, "").replace(/\/+$/, "")];
  const isPlain = url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
  if (isPlain && path.test(rest)) return `${origin}${rest}`;
  const without = path.test("/a") ? "credentials, query and fragment" : "credentials, path, query and fragment";
  throw new Fault(400, `${key} must be a URL such as https://sandboxes.example.com without ${without}, not "${text}"`);
}

function parseRanges(text: string): string[] {
  const ranges = text.split(/[\s,]+/).filter((range) => range !== "");
  const wrong = ranges.find((range) => ipv4Range(range) === undefined && !isIpv6Range(range));
  if (wrong === undefined) return ranges;
  throw new Fault(400, `trustedProxies must hold addresses and ranges such as 10.0.0.0/8, not "${wrong}"`);
}
