/** Certificates for tests, made with openssl, which also makes them for servers. */
import { copyFileSync, mkdirSync, readdirSync, renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../system/command.ts";
import type { CertificateFiles } from "../certificate.ts";

interface Made {
  /** The name that a test uses for it. */
  name: string;
  domain?: string;
  days?: number;
}

/** A self-signed certificate for a domain and all names below it. */
export async function makeCertificate(folder: string, { name, domain = "sandlot.localhost", days = 30 }: Made) {
  mkdirSync(folder, { recursive: true });
  const files: CertificateFiles = { cert: join(folder, `${name}.cert.pem`), key: join(folder, `${name}.key.pem`) };
  const names = `subjectAltName=DNS:${domain},DNS:*.${domain}`;
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", files.key];
  const cert = ["-subj", `/CN=${name}`, "-addext", names, "-days", String(days), "-out", files.cert];
  await run(["openssl", "req", "-x509", ...key, ...cert]);
  return files;
}

/**
 * A folder `live` with links into `archive`, as certbot keeps it. Each renewal has its own number, and the links change
 * one after the other.
 */
export class CertbotFolder {
  readonly files: CertificateFiles;
  readonly #live: string;
  readonly #archive: string;

  constructor(folder: string, domain: string) {
    this.#live = join(folder, "live", domain);
    this.#archive = join(folder, "archive", domain);
    for (const path of [this.#live, this.#archive]) mkdirSync(path, { recursive: true });
    this.files = { cert: join(this.#live, "fullchain.pem"), key: join(this.#live, "privkey.pem") };
  }

  /** Makes the certificate and key from another place the newest. */
  renew(files: CertificateFiles): void {
    this.link("privkey", files.key);
    this.link("fullchain", files.cert);
  }

  /** One of the two steps of a renewal. */
  link(kind: "fullchain" | "privkey", source: string): void {
    const number = readdirSync(this.#archive).filter((name) => name.startsWith(kind)).length + 1;
    const archived = join(this.#archive, `${kind}${number}.pem`);
    copyFileSync(source, archived);
    const link = join(this.#live, `${kind}.pem`);
    symlinkSync(archived, `${link}.new`);
    renameSync(`${link}.new`, link);
  }
}
