/** The last thing start-up says: where it is, what to export, what to try. */
import type { Listen } from "./addresses.ts";

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
  /** What clients have as their domain; undefined without TLS. */
  domain: string | undefined;
  /** A certificate that they have to be told to trust. */
  trust: string | undefined;
}

export function banner({ listen, domain, trust }: BannerAddresses, key: BannerKey): string {
  const url = `http://${reachable(listen.hostname)}:${listen.port}`;
  return `
Sandlot is ready at ${url}${domain === undefined ? "" : ` and https://api.${domain}`}

  export E2B_API_URL=${url}
  export E2B_SANDBOX_URL=${url}
  export E2B_API_KEY=${shownKey(key)}
${domain === undefined ? "" : withDomain(domain, trust)}
Try it (npm install e2b):

  import { Sandbox } from "e2b";
  const sandbox = await Sandbox.create();
  const { stdout } = await sandbox.commands.run("echo hello from $(hostname)");
  console.log(stdout);
  await sandbox.kill();
`;
}

/** Instead of the first two lines: then every port of a sandbox has a URL that a browser opens. */
function withDomain(domain: string, trust: string | undefined): string {
  const lines = ["unset E2B_API_URL E2B_SANDBOX_URL", `export E2B_DOMAIN=${domain}`];
  if (trust !== undefined) lines.push(`export NODE_EXTRA_CA_CERTS=${shellWord(trust)}`);
  const hint = trust === undefined ? "" : " (sandlot tls has the lines for Python)";
  return `\nOr by host names${hint}:\n\n${lines.map((line) => `  ${line}\n`).join("")}`;
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
