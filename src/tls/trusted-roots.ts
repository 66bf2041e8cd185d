/** The certificate authorities that this machine trusts, for connections to sites with header rules. */
import { readFileSync } from "node:fs";
import { Fault } from "../contract/fault.ts";

/** Where distributions keep the bundle of the authorities that the machine trusts. */
const BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];
/** They are one message to the relay. */
const ROOTS_MAX_BYTES = 1024 * 1024;

/**
 * In PEM. `SSL_CERT_FILE` replaces the machine's bundle, and the authorities of `NODE_EXTRA_CA_CERTS` are added. Null:
 * the machine has no bundle, and the runtime's own authorities apply.
 */
export function trustedRoots(env: Readonly<Record<string, string | undefined>>): string | null {
  const { SSL_CERT_FILE: own, NODE_EXTRA_CA_CERTS: extra } = env;
  const bundle = own === undefined || own === "" ? machineBundle() : read(own, "SSL_CERT_FILE");
  const added = extra === undefined || extra === "" ? "" : read(extra, "NODE_EXTRA_CA_CERTS");
  if (bundle === undefined && added === "") return null;
  const roots = `${bundle ?? ""}\n${added}`;
  if (roots.length > ROOTS_MAX_BYTES) {
    throw new Fault(
      500,
      `the trusted authorities have ${roots.length} bytes, and at most ${ROOTS_MAX_BYTES} are possible`,
    );
  }
  return roots;
}

function machineBundle(): string | undefined {
  for (const path of BUNDLES) {
    try {
      return readFileSync(path, "utf8");
    } catch {
      // Another distribution.
    }
  }
  return undefined;
}

function read(path: string, variable: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new Fault(500, `${variable} names ${path}, which cannot be read. FIX: correct or remove the variable`, {
      cause,
    });
  }
}
