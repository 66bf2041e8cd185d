/**
 * Reads a certificate with its key and checks it before use. A certificate that clients would reject, or that the
 * library cannot use, never replaces one that works.
 *
 * The module src/tls provides certificates and checks names. It never serves connections itself; the edge does.
 */
import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { Fault } from "../contract/fault.ts";

/** Maximum size of a certificate with its intermediates, or of a key. */
const CERTIFICATE_FILE_MAX_BYTES = 1024 * 1024;

export interface CertificateFiles {
  /** The certificate, then its intermediates, in PEM. */
  cert: string;
  key: string;
}

export interface Certificate {
  /** Both as they were read. */
  cert: string;
  key: string;
  validFromMs: number;
  validUntilMs: number;
  /** Whether a client accepts it for this host name. */
  isFor(name: string): boolean;
}

/** A digest of both files, to detect changes. Undefined: one of them cannot be read. */
export function digestOf(files: CertificateFiles): string | undefined {
  try {
    return createHash("sha256").update(read(files.cert)).update("\0").update(read(files.key)).digest("hex");
  } catch {
    return undefined;
  }
}

/** Throws a Fault that names the file and what is wrong with it. */
export function readCertificate(files: CertificateFiles): Certificate {
  const [cert, key] = [read(files.cert), read(files.key)];
  const leaf = parsed(files.cert, "certificate in PEM", () => new X509Certificate(cert));
  const secret = parsed(files.key, "private key in PEM without a passphrase", () => createPrivateKey(key));
  if (!leaf.checkPrivateKey(secret)) {
    throw new Fault(400, `the key in ${files.key} is not the one of the certificate in ${files.cert}`);
  }
  return {
    cert,
    key,
    validFromMs: Date.parse(leaf.validFrom),
    validUntilMs: Date.parse(leaf.validTo),
    isFor: (name) => leaf.checkHost(name) !== undefined,
  };
}

/** Examples of the names that clients use below a domain, one of each kind. */
export function namesBelow(domain: string): string[] {
  return [`api.${domain}`, `49983-i0123456789abcdefghij.${domain}`];
}

/** Why clients of the domain would reject it; undefined if they accept it. */
export function flawOf(certificate: Certificate, domain: string, nowMs: number): string | undefined {
  const { validFromMs, validUntilMs } = certificate;
  if (nowMs >= validUntilMs) return `it ended on ${day(validUntilMs)}`;
  if (nowMs < validFromMs) return `it begins on ${day(validFromMs)} only`;
  return namesBelow(domain).every((name) => certificate.isFor(name)) ? undefined : `it is not for *.${domain}`;
}

export function day(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 10);
}

function read(path: string): string {
  try {
    const { size } = statSync(path);
    if (size > CERTIFICATE_FILE_MAX_BYTES) throw new Error(`it has ${size} bytes`);
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new Fault(400, `${path} cannot be read`, { cause });
  }
}

function parsed<T>(path: string, what: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    throw new Fault(400, `${path} holds no ${what}`, { cause });
  }
}
