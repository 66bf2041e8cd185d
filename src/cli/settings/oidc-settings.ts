/** Settings of the OpenID Connect issuer of logins. */
import { readFileSync, statSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import type { OidcSettings } from "../../control/login/oidc-login.ts";

/** The secret is in a file, which is read at the start of the server. */
export interface OidcIssuer extends Omit<OidcSettings, "clientSecret"> {
  clientSecretFile: string | undefined;
}

type OidcKey = "oidcIssuer" | "oidcClientId" | "oidcClientSecretFile" | "oidcDomains" | "oidcTeam";
const OTHERS = ["oidcClientId", "oidcClientSecretFile", "oidcDomains", "oidcTeam"] as const;

const DOMAIN = /^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/;
const SECRET_MAX_BYTES = 4096;

export function parseOidc(given: (key: OidcKey) => string | undefined): OidcIssuer | undefined {
  const [issuer, clientId, clientSecretFile, domains, team] = [given("oidcIssuer"), ...OTHERS.map((key) => given(key))];
  if (issuer === undefined) {
    const alone = OTHERS.find((key) => given(key) !== undefined);
    if (alone !== undefined) throw new Fault(400, `${alone} needs oidcIssuer as well: the URL of the issuer`);
    return undefined;
  }
  if (clientId === undefined) {
    throw new Fault(400, `oidcIssuer is ${issuer}, but oidcClientId is missing: the id of this server at the issuer`);
  }
  if (clientSecretFile !== undefined && !clientSecretFile.startsWith("/")) {
    throw new Fault(400, `oidcClientSecretFile must be an absolute path, not "${clientSecretFile}"`);
  }
  if (team !== undefined && domains === undefined) {
    throw new Fault(400, `oidcTeam is ${team}, but oidcDomains is missing: who may become a user of this team`);
  }
  return { issuer: parseIssuer(issuer), clientId, clientSecretFile, domains: parseDomains(domains), team };
}

/** Fault 400 when the file of the secret cannot be read. */
export function withSecret(oidc: OidcIssuer | undefined): OidcSettings | undefined {
  if (oidc === undefined) return undefined;
  const { clientSecretFile, ...settings } = oidc;
  return clientSecretFile === undefined ? settings : { ...settings, clientSecret: secretIn(clientSecretFile) };
}

function secretIn(path: string): string {
  try {
    const secret = statSync(path).size <= SECRET_MAX_BYTES ? readFileSync(path, "utf8").trim() : "";
    if (secret !== "") return secret;
  } catch (cause) {
    throw new Fault(400, `oidcClientSecretFile names ${path}, which cannot be read: ${String(cause)}`, { cause });
  }
  throw new Fault(400, `oidcClientSecretFile names ${path}, which must hold the secret alone, in at most 4096 bytes`);
}

function parseIssuer(text: string): string {
  const url = URL.parse(text);
  const isSafe =
    url?.protocol === "https:" ||
    (url?.protocol === "http:" && ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname));
  if (url !== null && isSafe && url.username + url.password + url.search + url.hash === "") return text;
  throw new Fault(400, `oidcIssuer must be an https:// URL without query, not "${text}"`);
}

function parseDomains(text: string | undefined): string[] {
  const domains = (text ?? "").split(/[,\s]+/).filter((domain) => domain !== "");
  for (const domain of domains) {
    if (!DOMAIN.test(domain)) {
      throw new Fault(400, `oidcDomains must hold domains of email addresses such as example.com, not "${domain}"`);
    }
  }
  return domains;
}
