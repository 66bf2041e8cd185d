/**
 * The certificate authorities that this machine trusts, for the sandbox that fetches: it has those of browsers, and an
 * operator's own are in the bundle of the machine, as for every other program there.
 */
import { readFile, stat } from "node:fs/promises";
import { described, stderrLog } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";

/** Of the certificates that this machine trusts. */
export const FETCH_AUTHORITIES_MAX_BYTES = 8 * 1024 * 1024;

/** Where distributions have their bundle: Debian and Arch, Fedora, SUSE, Alpine. The first that is there counts. */
export const MACHINE_BUNDLES: readonly string[] = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/** Read each time, since an operator changes it without asking. Undefined: there is none, which the log may explain. */
export async function machineAuthorities(bundles: readonly string[]): Promise<string | undefined> {
  for (const path of bundles) {
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) continue;
    try {
      if (!found.isFile() || found.size > FETCH_AUTHORITIES_MAX_BYTES) {
        throw new Fault(500, `${path} must be a file of at most ${FETCH_AUTHORITIES_MAX_BYTES} bytes`);
      }
      return await readFile(path, "utf8");
    } catch (error) {
      stderrLog.write({ level: "warn", event: "authorities of this machine are not trusted", error: described(error) });
      return undefined;
    }
  }
  return undefined;
}
