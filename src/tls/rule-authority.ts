/**
 * The server's certificate authority for header rules. The relay shows sandboxes certificates of this authority for
 * names with a rule, and only sandboxes with rules trust it. It is separate from the authority of `sandlot tls`, which
 * people trust. Its key stays in the data folder, readable only for root: the relay gets certificates, for a key that
 * each start makes anew.
 */
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DomainPatterns } from "../contract/domain-pattern.ts";
import { Fault } from "../contract/fault.ts";
import { run } from "../system/command.ts";
import { newSerial } from "./serial.ts";

const AUTHORITY_DAYS = 3_650;
/** An authority that ends sooner is replaced at the next start. */
const AUTHORITY_RENEW_BEFORE_DAYS = 180;
const CERTIFICATE_DAYS = 30;
const DAY_MS = 86_400_000;
const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256", "-keyout", "-"];
const EVERY_NAME = new DomainPatterns(["*"]);

export class RuleAuthority {
  private constructor(
    private readonly folder: string,
    /** The certificate that sandboxes with rules trust. */
    readonly certificatePem: string,
    /** The key of all certificates of `certificateFor`. */
    readonly leafKeyPem: string,
  ) {}

  /** Makes the authority at the first start. The caller holds the data folder's lock. */
  static async open(dataFolder: string, nowMs = Date.now()): Promise<RuleAuthority> {
    const folder = join(dataFolder, "rules");
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const file = join(folder, AUTHORITY_FILE);
    if (!authorityLasts(file, nowMs)) await makeAuthority(file);
    const leaf = await run(["openssl", "req", "-new", ...NEW_KEY, "-subj", "/O=Sandlot/CN=Header rule"]);
    await writeFile(join(folder, REQUEST_FILE), blockOf(leaf, "CERTIFICATE REQUEST"), { mode: 0o600 });
    return new RuleAuthority(folder, blockOf(readFileSync(file, "utf8"), "CERTIFICATE"), blockOf(leaf, "PRIVATE KEY"));
  }

  /** A certificate for this host name, in PEM. It takes tens of milliseconds of processor time. */
  async certificateFor(name: string): Promise<string> {
    if (!EVERY_NAME.match(name)) throw new Fault(400, `${JSON.stringify(name)} is not a host name`);
    const [authority, request] = [join(this.folder, AUTHORITY_FILE), join(this.folder, REQUEST_FILE)];
    const signing = ["-CA", authority, "-CAkey", authority, "-set_serial", newSerial(), "-sha256"];
    const extensions = [
      "basicConstraints = critical, CA:FALSE",
      "keyUsage = critical, digitalSignature",
      "extendedKeyUsage = serverAuth",
      "subjectKeyIdentifier = hash",
      "authorityKeyIdentifier = keyid",
      `subjectAltName = DNS:${name}`,
    ];
    const extending = ["-extfile", "/dev/stdin", "-days", String(CERTIFICATE_DAYS)];
    const stdin = `${extensions.join("\n")}\n`;
    return await run(["openssl", "x509", "-req", "-in", request, ...signing, ...extending], { stdin });
  }
}

/** The authority's key and certificate in one file, so that neither is ever without the other. */
const AUTHORITY_FILE = "authority.pem";
/** The signing request of this start's leaf key; not secret. */
const REQUEST_FILE = "request.pem";

const AUTHORITY_CONFIG = `[req]
prompt = no
distinguished_name = name
x509_extensions = extensions
[name]
O = Sandlot
CN = Sandlot header rules
[extensions]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
`;

function authorityLasts(file: string, nowMs: number): boolean {
  try {
    const { validTo } = new X509Certificate(readFileSync(file));
    return Date.parse(validTo) - nowMs > AUTHORITY_RENEW_BEFORE_DAYS * DAY_MS;
  } catch {
    return false;
  }
}

async function makeAuthority(file: string): Promise<void> {
  const config = ["-config", "/dev/stdin", "-days", String(AUTHORITY_DAYS), "-set_serial", newSerial()];
  const made = await run(["openssl", "req", "-x509", ...NEW_KEY, ...config], { stdin: AUTHORITY_CONFIG });
  const whole = blockOf(made, "PRIVATE KEY") + blockOf(made, "CERTIFICATE");
  await writeFile(`${file}.new`, whole, { mode: 0o600, flush: true });
  await rename(`${file}.new`, file);
}

/** One block of a text in PEM. */
function blockOf(pem: string, label: string): string {
  const block = new RegExp(`-----BEGIN ${label}-----[^-]*-----END ${label}-----\n`).exec(pem)?.[0];
  if (block === undefined) throw new Fault(500, `openssl made no ${label.toLowerCase()}`);
  return block;
}
