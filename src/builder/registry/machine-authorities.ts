/** The host's certificate authorities, including the operator's own, for the sandbox that fetches. */
import { readFile, stat } from "node:fs/promises";
import { described, stderrLog } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";

export const FETCH_AUTHORITIES_MAX_BYTES = 8 * 1024 * 1024;

/** Bundles of Debian and Arch, Fedora, SUSE, Alpine. The first existing one is used. */
export const MACHINE_BUNDLES: readonly string[] = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/** Reads the bundle each time, because an operator may change it at any time. Undefined: none; the log may say why. */
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
      stderrLog.write({ level: "warn", event: "the machine's authorities could not be read", error: described(error) });
      return undefined;
    }
  }
  return undefined;
}
