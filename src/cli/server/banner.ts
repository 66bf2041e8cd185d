/** The last message of start-up: the server's addresses, environment variables for clients, and a first program. */
import { shellQuoted } from "../../base/shell-text.ts";
import type { Listen } from "../settings/addresses.ts";

/** While these are set, clients do not derive URLs from E2B_DOMAIN. */
export const UNSET_URLS = "unset E2B_API_URL E2B_SANDBOX_URL E2B_VOLUME_API_URL";

export interface BannerKey {
  /** The first key; undefined when the operator has removed its file. */
  secret: string | undefined;
  file: string;
  /** Whether a person reads this. Output to a file or a journal is stored, so it must not contain a key. */
  isTerminal: boolean;
}

export interface BannerAddresses {
  listen: Listen;
  /** The domain of sandboxes, without a port. */
  domain: string;
  tls: TlsAddresses | undefined;
  publicUrl: string | undefined;
  publicSandboxUrl: string | undefined;
}

export interface TlsAddresses {
  /** The domain with the port of the TLS listener, unless that is 443. */
  domain: string;
  /** File with the certificate of the local authority, which clients have to trust. */
  trust: string | undefined;
}

export function banner(addresses: BannerAddresses, key: BannerKey): string {
  const { listen, tls, publicUrl } = addresses;
  const own = ownUrl(listen);
  const url = publicUrl ?? own;
  const also = publicUrl ?? (tls && `https://api.${tls.domain}`);
  return `
Sandlot is ready at ${own}${also === undefined ? "" : ` and ${also}`}

  export E2B_API_URL=${url}
  export E2B_SANDBOX_URL=${addresses.publicSandboxUrl ?? url}
  export E2B_VOLUME_API_URL=${url}
  export E2B_DOMAIN=${clientDomain(addresses)}
  export E2B_API_KEY=${shownKey(key)}
${tls === undefined || publicUrl !== undefined ? "" : overTls(tls)}
Try it: save this as hello.mjs here, and run node hello.mjs (elsewhere: npm install e2b).

  import { Sandbox } from "e2b";
  const sandbox = await Sandbox.create();
  const { stdout } = await sandbox.commands.run("echo hello from $(hostname)");
  console.log(stdout);
  await sandbox.kill();
`;
}

/** With the port, unless it is 443. Clients prepend `api.`, so it is removed from the public URL. */
function clientDomain({ listen, domain, tls, publicUrl, publicSandboxUrl }: BannerAddresses): string {
  if (publicSandboxUrl !== undefined) return new URL(publicSandboxUrl).host;
  if (publicUrl !== undefined) return new URL(publicUrl).host.replace(/^api\./, "");
  return tls?.domain ?? `${domain}:${listen.port}`;
}

/** Follows the lines above: without the URLs, clients derive https:// URLs from the domain. */
function overTls({ trust }: TlsAddresses): string {
  const lines = [UNSET_URLS];
  if (trust !== undefined) lines.push(`export NODE_EXTRA_CA_CERTS=${shellQuoted(trust)}`);
  const hint = trust === undefined ? "" : " (`sandlot tls` prints the lines for Python)";
  return `\nFor TLS in all requests of clients, also${hint}:\n\n${lines.map((line) => `  ${line}\n`).join("")}`;
}

/** Can be pasted into a shell unchanged. */
function shownKey({ secret, file, isTerminal }: BannerKey): string {
  if (secret === undefined) return "…   (sandlot keys create makes one)";
  return isTerminal ? secret : `$(sudo cat ${shellQuoted(file)})`;
}

export function ownUrl({ hostname, port }: Listen): string {
  return `http://${connectableHost(hostname)}:${port}`;
}

/** A wildcard address to listen on is not one to connect to. */
function connectableHost(hostname: string): string {
  if (hostname === "0.0.0.0" || hostname === "::") return "127.0.0.1";
  return hostname.includes(":") ? `[${hostname}]` : hostname;
}
