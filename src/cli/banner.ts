/** The last message of start-up: the addresses of the server, the variables that clients read, and a first program. */
import type { Listen } from "./addresses.ts";

/** With these, clients do not derive URLs from E2B_DOMAIN. */
export const UNSET_URLS = "unset E2B_API_URL E2B_SANDBOX_URL E2B_VOLUME_API_URL";

export interface BannerKey {
  /** The first key; undefined when the operator has put its file away. */
  secret: string | undefined;
  /** Where it is kept. */
  file: string;
  /** Whether a person reads this. What goes to a file or a journal stays there, so no key may be in it. */
  isTerminal: boolean;
}

export interface BannerAddresses {
  listen: Listen;
  /** Name below which sandboxes are, without a port. */
  domain: string;
  tls: TlsAddresses | undefined;
  publicUrl: string | undefined;
  publicSandboxUrl: string | undefined;
}

export interface TlsAddresses {
  /** The domain with the port of the TLS listener, unless that is 443. */
  domain: string;
  /** File with the certificate of our own authority, which clients have to trust. */
  trust: string | undefined;
}

export function banner(addresses: BannerAddresses, key: BannerKey): string {
  const { listen, tls, publicUrl } = addresses;
  const own = `http://${reachable(listen.hostname)}:${listen.port}`;
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

/** With the port, unless it is that of https. Clients put `api.` before it, so the public URL may begin with that. */
function clientDomain({ listen, domain, tls, publicUrl, publicSandboxUrl }: BannerAddresses): string {
  if (publicSandboxUrl !== undefined) return new URL(publicSandboxUrl).host;
  if (publicUrl !== undefined) return new URL(publicUrl).host.replace(/^api\./, "");
  return tls?.domain ?? `${domain}:${listen.port}`;
}

/** After the lines above: without the URLs, clients derive https:// URLs from the domain. */
function overTls({ trust }: TlsAddresses): string {
  const lines = [UNSET_URLS];
  if (trust !== undefined) lines.push(`export NODE_EXTRA_CA_CERTS=${shellWord(trust)}`);
  const hint = trust === undefined ? "" : " (`sandlot tls` prints the lines for Python)";
  return `\nFor TLS in all requests of clients, also${hint}:\n\n${lines.map((line) => `  ${line}\n`).join("")}`;
}

/** To be pasted into a shell as it is. */
function shownKey({ secret, file, isTerminal }: BannerKey): string {
  if (secret === undefined) return "…   (sandlot keys create makes one)";
  return isTerminal ? secret : `$(sudo cat ${shellWord(file)})`;
}

export function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** An address to listen on is not always one to connect to. */
function reachable(hostname: string): string {
  if (hostname === "0.0.0.0" || hostname === "::") return "127.0.0.1";
  return hostname.includes(":") ? `[${hostname}]` : hostname;
}
