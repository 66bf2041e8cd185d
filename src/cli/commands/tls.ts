/**
 * `sandlot tls`: creates a local authority and a certificate for this machine, unless the operator has a certificate.
 * Checks that names of the domain resolve here, and prints the settings for clients.
 */
import { shellQuoted } from "../../base/shell-text.ts";
import { installPackages } from "../../setup/packages.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { type CertificateFiles, day, flawOf, namesBelow, readCertificate } from "../../tls/certificate.ts";
import { LocalAuthority } from "../../tls/local-authority.ts";
import { fixOf, isFound, lookUp, lookupSummary } from "../../tls/name-lookup.ts";
import { requireRoot } from "../prepare.ts";
import { UNSET_URLS } from "../server/banner.ts";
import type { Config } from "../settings/config.ts";

const MADE = {
  kept: "unchanged",
  certificate: "the certificate is new",
  authority: "both are new; clients that trusted the previous authority must trust this one",
};

/** Returns 1 when clients on this machine cannot use it yet. */
export async function tls(config: Config): Promise<number> {
  requireRoot();
  const { domain, certificate } = config.addresses;
  const data = new DataFolder(config.dataFolder);
  const local = certificate === undefined ? new LocalAuthority(config.dataFolder) : undefined;
  const isFirst = local !== undefined && LocalAuthority.find(config.dataFolder) === undefined;
  if (local !== undefined) {
    await installPackages((line) => console.error(`  ${line}`), { openssl: "openssl" });
    const made = await local.renew(domain, Date.now());
    console.log(`authority    ${local.trustFile}: for ${domain} and names below it, on this machine only`);
    console.log(`certificate  ${local.files.cert}: ${MADE[made]}`);
  }
  const isGood = checkCertificate(local?.files ?? certificate, domain);
  const isNamed = await checkNames(domain);
  console.log(usageText(config, data, local, isFirst && data.inUse));
  return isGood && isNamed ? 0 : 1;
}

function checkCertificate(files: CertificateFiles | undefined, domain: string): boolean {
  if (files === undefined) return false;
  const certificate = readCertificate(files);
  const flaw = flawOf(certificate, domain, Date.now());
  if (flaw === undefined) console.log(`names        ${domain} and *.${domain}, until ${day(certificate.validUntilMs)}`);
  else
    console.log(`names        clients will refuse ${files.cert}: ${flaw}\n             FIX: get one for *.${domain}`);
  return flaw === undefined;
}

async function checkNames(domain: string): Promise<boolean> {
  const [, name = ""] = namesBelow(domain);
  const lookups = await lookUp(name);
  const isNamed = isFound(lookups, domain);
  console.log(`look-up      ${lookupSummary(lookups)} for ${name}`);
  if (!isNamed) console.log(`             FIX: ${fixOf(domain)}`);
  return isNamed;
}

function usageText(config: Config, data: DataFolder, local: LocalAuthority | undefined, restart: boolean): string {
  const { domain, tlsListen } = config.addresses;
  const shown = tlsListen.port === 443 ? domain : `${domain}:${tlsListen.port}`;
  const exports = [
    UNSET_URLS,
    `export E2B_DOMAIN=${shown}`,
    `export E2B_API_KEY=$(sudo cat ${shellQuoted(data.keyFile)})`,
  ];
  if (local !== undefined) {
    const [ca, bundle] = [shellQuoted(local.trustFile), shellQuoted(local.bundleFile)];
    exports.push(
      `export NODE_EXTRA_CA_CERTS=${ca}   # JavaScript: Node, Bun, the e2b command`,
      `export SSL_CERT_FILE=${bundle}     # Python, and what uses OpenSSL`,
      `export REQUESTS_CA_BUNDLE=${bundle} # Python's requests`,
    );
  }
  const where = `https://api.${shown}, on ${tlsListen.hostname}:${tlsListen.port}`;
  const when = restart ? "After a restart, the server that runs now" : "The server (sandlot up)";
  const browsers =
    local === undefined
      ? ""
      : `
Browsers, and all other programs of this machine (for browsers: import ${local.trustFile} as an authority):

  sudo cp ${shellQuoted(local.trustFile)} /usr/local/share/ca-certificates/sandlot.crt
  sudo update-ca-certificates
`;
  return `
${when} is at ${where}; a port of a sandbox is at
https://PORT-ID.${shown}, which is what getHost(PORT) gives. For clients:

${exports.map((line) => `  ${line}\n`).join("")}${browsers}`;
}
