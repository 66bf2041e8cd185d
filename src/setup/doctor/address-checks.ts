/** Checks whether clients can use the domain: its certificate, and DNS names that resolve to the server. */
import { errorMessage } from "../../base/error-message.ts";
import { day, flawOf, namesBelow, readCertificate } from "../../tls/certificate.ts";
import { LocalAuthority } from "../../tls/local-authority.ts";
import { fixOf, isFound, lookUp, lookupSummary } from "../../tls/name-lookup.ts";
import { broken, type Check, type DoctorOptions, degraded, type Finding, ok } from "./finding.ts";

export function addressChecks(options: DoctorOptions): Check[] {
  return [{ name: "TLS", run: () => tls(options) }];
}

async function tls({ dataFolder, domain, certificate }: DoctorOptions): Promise<Finding> {
  const files = certificate ?? LocalAuthority.find(dataFolder)?.files;
  if (files === undefined || domain === undefined) return ok("no certificate, so plain HTTP only");
  const renew = certificate === undefined ? "run `sandlot tls`" : `put one for *.${domain} there`;
  let served: ReturnType<typeof readCertificate>;
  try {
    served = readCertificate(files);
  } catch (error) {
    return broken(errorMessage(error), renew);
  }
  const flaw = flawOf(served, domain, Date.now());
  if (flaw !== undefined) return degraded(`${files.cert}: ${flaw}`, `clients refuse https://*.${domain}`, renew);
  const [, name = ""] = namesBelow(domain);
  const lookups = await lookUp(name);
  const detail = `*.${domain} until ${day(served.validUntilMs)}; ${lookupSummary(lookups)}`;
  if (isFound(lookups, domain)) return ok(detail);
  return degraded(detail, `clients on this machine do not find *.${domain}`, fixOf(domain));
}
