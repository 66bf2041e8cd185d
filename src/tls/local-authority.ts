/**
 * A certificate authority for one domain on one machine, for operators without a public certificate. Its key stays in
 * the data folder. Its certificate, which clients must trust, is in a world-readable folder beside it. The
 * authority is restricted to names of its domain, so trusting it does not affect other sites.
 */
import { X509Certificate } from "node:crypto";
import { existsSync, lstatSync, readFileSync } from "node:fs";
import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sha256 } from "../base/sha256.ts";
import { Fault } from "../contract/fault.ts";
import { run } from "../system/command.ts";
import { takeLock } from "../system/syscalls.ts";
import { type CertificateFiles, flawOf, readCertificate } from "./certificate.ts";
import { newSerial } from "./serial.ts";

/** Clients reject certificates of longer validity. An authority is trusted by hand, so it changes rarely. */
const CERTIFICATE_DAYS = 397;
const CERTIFICATE_RENEW_BEFORE_DAYS = 30;
const AUTHORITY_DAYS = 3_650;

/** The machine's trusted authorities, for a bundle with both. */
const SYSTEM_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt";
const DAY_MS = 86_400_000;
/** Maximum length of each part of a certificate's name (X.520). */
const NAME_PART_MAX_CHARS = 64;

type Renewal = "kept" | "certificate" | "authority";

export class LocalAuthority {
  readonly #folder: string;
  readonly #trustFolder: string;

  constructor(dataFolder: string) {
    this.#folder = join(dataFolder, "tls");
    this.#trustFolder = `${dataFolder}-trust`;
  }

  /** Undefined: no authority was made for this data folder. */
  static find(dataFolder: string): LocalAuthority | undefined {
    const authority = new LocalAuthority(dataFolder);
    return existsSync(authority.#authorityFile) ? authority : undefined;
  }

  /** The server's key and certificate, in one file, so that no reader finds a new one with an old one. */
  get files(): CertificateFiles {
    return { cert: join(this.#folder, "server.pem"), key: join(this.#folder, "server.pem") };
  }

  get trustFile(): string {
    return join(this.#trustFolder, "ca.pem");
  }

  /** The authority's certificate with those that the machine trusts, for programs that trust a single file. */
  get bundleFile(): string {
    return join(this.#trustFolder, "bundle.pem");
  }

  /** Makes what is missing, about to expire, or for another domain. Returns what it made. */
  async renew(domain: string, nowMs: number): Promise<Renewal> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    using lock = takeLock(join(this.#folder, "lock"));
    // The process with the lock makes the same.
    if (lock === undefined) return "kept";
    const madeAuthority = !this.#authorityServes(domain, nowMs);
    if (madeAuthority) await this.#makeAuthority(domain);
    await this.#publish();
    if (!madeAuthority && this.#certificateServes(domain, nowMs)) return "kept";
    await this.#makeCertificate(domain);
    return madeAuthority ? "authority" : "certificate";
  }

  get #authorityFile(): string {
    return join(this.#folder, "authority.pem");
  }

  #authorityServes(domain: string, nowMs: number): boolean {
    try {
      const { subject, validTo } = new X509Certificate(readFileSync(this.#authorityFile));
      const lasts = Date.parse(validTo) - nowMs > (CERTIFICATE_DAYS + CERTIFICATE_RENEW_BEFORE_DAYS) * DAY_MS;
      return lasts && subject.split("\n").includes(`OU=${markOf(domain)}`);
    } catch {
      return false;
    }
  }

  #certificateServes(domain: string, nowMs: number): boolean {
    try {
      const certificate = readCertificate(this.files);
      const authority = new X509Certificate(readFileSync(this.#authorityFile));
      const isOurs = new X509Certificate(certificate.cert).verify(authority.publicKey);
      return isOurs && flawOf(certificate, domain, nowMs + CERTIFICATE_RENEW_BEFORE_DAYS * DAY_MS) === undefined;
    } catch {
      return false;
    }
  }

  async #makeAuthority(domain: string): Promise<void> {
    await this.#inScratch(async (scratch) => {
      const config = [
        "[req]",
        "prompt = no",
        "distinguished_name = name",
        "x509_extensions = extensions",
        "[name]",
        "O = Sandlot",
        `OU = ${markOf(domain)}`,
        "CN = Sandlot on this machine",
        "[extensions]",
        "basicConstraints = critical, CA:TRUE, pathlen:0",
        "keyUsage = critical, keyCertSign, cRLSign",
        "subjectKeyIdentifier = hash",
        "nameConstraints = critical, @names",
        "[names]",
        `permitted;DNS.0 = ${domain}`,
        "excluded;IP.0 = 0.0.0.0/0.0.0.0",
        "excluded;IP.1 = 0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0",
      ];
      await writeFile(join(scratch, "config"), config.join("\n"));
      const days = String(AUTHORITY_DAYS);
      await openssl(scratch, ["req", "-x509", ...NEW_KEY, "-config", "config", "-days", days, "-out", "cert"]);
      await replace(scratch, this.#authorityFile);
    });
  }

  async #makeCertificate(domain: string): Promise<void> {
    await this.#inScratch(async (scratch) => {
      const config = [
        "[req]",
        "prompt = no",
        "distinguished_name = name",
        "[name]",
        `CN = ${markOf(domain)}`,
        "[extensions]",
        "basicConstraints = critical, CA:FALSE",
        "keyUsage = critical, digitalSignature",
        "extendedKeyUsage = serverAuth",
        "subjectKeyIdentifier = hash",
        "authorityKeyIdentifier = keyid",
        `subjectAltName = DNS:${domain}, DNS:*.${domain}`,
      ];
      await writeFile(join(scratch, "config"), config.join("\n"));
      await openssl(scratch, ["req", "-new", ...NEW_KEY, "-config", "config", "-out", "request"]);
      const signing = ["-CA", this.#authorityFile, "-CAkey", this.#authorityFile, "-set_serial", newSerial()];
      const extending = ["-extfile", "config", "-extensions", "extensions", "-days", String(CERTIFICATE_DAYS)];
      await openssl(scratch, ["x509", "-req", "-in", "request", "-sha256", ...signing, ...extending, "-out", "cert"]);
      await replace(scratch, this.files.cert);
    });
  }

  async #publish(): Promise<void> {
    const authority = new X509Certificate(readFileSync(this.#authorityFile)).toString();
    const system = existsSync(SYSTEM_AUTHORITIES) ? readFileSync(SYSTEM_AUTHORITIES, "utf8") : "";
    await mkdir(this.#trustFolder, { recursive: true });
    const { uid } = lstatSync(this.#trustFolder);
    // The owner of the folder controls what is trusted.
    if (uid !== process.getuid?.()) {
      throw new Fault(403, `${this.#trustFolder} belongs to user ${uid}. FIX: remove it, then try again`);
    }
    await chmod(this.#trustFolder, 0o755);
    await writeWhole(this.trustFile, authority);
    await writeWhole(this.bundleFile, `${authority}\n${system}`);
  }

  /** The scratch folder is only readable for root, and is removed afterwards. */
  async #inScratch(work: (scratch: string) => Promise<void>): Promise<void> {
    const scratch = join(this.#folder, "scratch");
    await rm(scratch, { recursive: true, force: true });
    await mkdir(scratch, { mode: 0o700 });
    try {
      await work(scratch);
    } finally {
      await rm(scratch, { recursive: true, force: true });
    }
  }
}

/** The domain, shortened to fit the name of an authority. */
function markOf(domain: string): string {
  if (domain.length <= NAME_PART_MAX_CHARS) return domain;
  return sha256(domain);
}

const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key", "-sha256"];

async function openssl(cwd: string, args: readonly string[]): Promise<void> {
  await run(["openssl", ...args], { cwd });
}

/** Writes the new key and certificate into one file. */
async function replace(scratch: string, path: string): Promise<void> {
  const parts = ["key", "cert"].map((name) => readFileSync(join(scratch, name), "utf8"));
  const whole = join(scratch, "whole");
  await writeFile(whole, parts.join(""), { mode: 0o600, flush: true });
  await rename(whole, path);
}

async function writeWhole(path: string, text: string): Promise<void> {
  const beside = `${path}.new`;
  await writeFile(beside, text, { mode: 0o644, flush: true });
  await chmod(beside, 0o644);
  await rename(beside, path);
}
