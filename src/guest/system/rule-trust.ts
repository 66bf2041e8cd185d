/**
 * Makes programs of the sandbox trust the authority of header rules, or no longer trust it. The certificate is added to
 * the image's bundles of certificates, which many programs read whatever their variables say, and variables lead all
 * other programs to it. A copy where the distribution collects certificates lets it survive an update of the bundles.
 *
 * The record in /etc tells which certificate to remove, also from a disk that began in another sandbox. Any user may
 * write some of these folders and the image may have links anywhere. So every file is written under a new name in a
 * folder that was verified when it was opened, and is then renamed.
 */
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { errorMessage } from "../../base/error-message.ts";
import { kernelUuid } from "../../base/kernel-random.ts";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { javaTrustStore } from "./java-trust-store.ts";
import { logNotice } from "./log.ts";

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** The certificate that was added. */
const RECORD = "/etc/ssl/sandlot-rules.pem";
/** Debian and Alpine, BSD's place on Alpine, Fedora, openSUSE. */
const BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/ssl/cert.pem",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
  "/etc/ssl/ca-bundle.pem",
];
/** Where the files behind links to bundles may be. */
const HOLDERS = ["/etc/", "/usr/", "/var/lib/ca-certificates/"];
/** Made in an image without any bundle. */
const MADE_BUNDLE = "/etc/ssl/certs/ca-certificates.crt";
const MADE_BUNDLE_TITLE = "# Public roots, written by Sandlot: this image had no bundle of certificates.\n";
/** What update-ca-certificates and update-ca-trust collect. */
const COLLECTED_FOLDERS = ["/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"];
const COLLECTED_NAME = "sandlot-rules.crt";
const BUNDLE_MAX_BYTES = 4 * 1024 * 1024;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----/g;

interface TrustPlaces {
  /** The sandbox's root: empty, except in tests. */
  root: string;
  /** For files that only variables refer to. */
  folder: string;
}

/**
 * Makes this certificate, in PEM, the only one that was added; undefined: none. Returns the variables that new
 * processes need. Never throws: without trust, connections to names with rules fail and nothing else does.
 */
export function trustRules(certificate: string | undefined, places: TrustPlaces): Record<string, string> {
  const wanted = certificate === undefined ? undefined : `${certificate.trim()}\n`;
  try {
    const recorded = readOwn(places.root + RECORD);
    if (recorded !== undefined && recorded !== wanted) removeTrust(recorded, places.root);
    return wanted === undefined ? {} : addTrust(wanted, places);
  } catch (thrown) {
    logNotice("the certificate of header rules could not be added or removed", { reason: reasonOf(thrown) });
    return {};
  }
}

function addTrust(certificate: string, places: TrustPlaces): Record<string, string> {
  const { root, folder } = places;
  const isRecorded = isDone("the record", () => {
    mkdirSync(root + dirname(RECORD), { recursive: true });
    replace(join(realpathSync(root + dirname(RECORD)), basename(RECORD)), certificate);
  });
  const known = bundlesIn(root);
  collect(certificate, root, known.length === 0);
  const extended = known.filter((bundle) => isDone("a bundle", () => rewrite(bundle, textWith(bundle, certificate))));
  const { path, text } = extended[0] ?? makeBundle(known[0], certificate, places);
  const certificates = [...textWith({ text }, certificate).matchAll(CERTIFICATE)];
  const store = javaTrustStore(certificates.map(([, base64 = ""]) => Buffer.from(base64, "base64")));
  return {
    NODE_EXTRA_CA_CERTS: isRecorded ? RECORD : placeIn(folder, "rules.pem", certificate),
    SSL_CERT_FILE: path,
    REQUESTS_CA_BUNDLE: path,
    CURL_CA_BUNDLE: path,
    GIT_SSL_CAINFO: path,
    AWS_CA_BUNDLE: path,
    JAVA_TOOL_OPTIONS: `-Djavax.net.ssl.trustStore=${placeIn(folder, "rules.jks", store)}`,
  };
}

function removeTrust(certificate: string, root: string): void {
  for (const bundle of bundlesIn(root)) {
    isDone("a bundle", () => {
      if (bundle.text.startsWith(MADE_BUNDLE_TITLE)) rmSync(bundle.file);
      else rewrite(bundle, bundle.text.replaceAll(certificate, ""));
    });
  }
  for (const folder of COLLECTED_FOLDERS) {
    isDone("the collected copy", () => {
      if (!existsSync(root + folder)) return;
      inFolder(root + folder, (inside) => rmSync(`${inside}/${COLLECTED_NAME}`, { force: true }));
    });
  }
  rmSync(root + RECORD);
}

interface Bundle {
  /** As programs know it. */
  path: string;
  /** Behind all links. */
  file: string;
  text: string;
  rights: FileRights;
}

/** The image's bundles, each file once. */
function bundlesIn(root: string): Bundle[] {
  const found = new Map<string, Bundle>();
  for (const path of BUNDLES) {
    isDone("a bundle", () => {
      if (!existsSync(root + path)) return;
      const file = realpathSync(root + path);
      if (found.has(file) || !HOLDERS.some((holder) => file.startsWith(root + holder))) return;
      const text = readBounded(file);
      const { mode, uid, gid } = statSync(file);
      if (!text?.includes("-----BEGIN CERTIFICATE-----")) return;
      found.set(file, { path, file, text, rights: { mode: mode & 0o777, uid, gid } });
    });
  }
  return [...found.values()];
}

function textWith({ text }: Pick<Bundle, "text">, certificate: string): string {
  return text.includes(certificate) ? text : `${text.replace(/\n?$/, "\n")}${certificate}`;
}

function rewrite({ file, text, rights }: Bundle, wanted: string): void {
  if (text !== wanted) replace(file, wanted, rights);
}

/**
 * The variables replace the roots that a program brings, so a bundle needs the public ones, too. The guest's own are
 * used where the image has none.
 */
function makeBundle(known: Bundle | undefined, certificate: string, { root, folder }: TrustPlaces) {
  const text = textWith(known ?? { text: MADE_BUNDLE_TITLE + publicRoots() }, certificate);
  const isMade =
    known === undefined &&
    isDone("a bundle", () => {
      mkdirSync(root + dirname(MADE_BUNDLE), { recursive: true });
      replace(join(realpathSync(root + dirname(MADE_BUNDLE)), basename(MADE_BUNDLE)), text);
    });
  return { text, path: isMade ? MADE_BUNDLE : placeIn(folder, "rules-bundle.pem", text) };
}

function publicRoots(): string {
  // Loaded here only: a list of all roots takes memory that no other guest needs.
  const { rootCertificates } = process.getBuiltinModule("node:tls");
  return `${rootCertificates.join("\n")}\n`;
}

function collect(certificate: string, root: string, hasNoBundle: boolean): void {
  // The distribution's bundle may be installed later.
  if (hasNoBundle) isDone("the collected copy", () => mkdirSync(root + COLLECTED_FOLDERS[0], { recursive: true }));
  for (const folder of COLLECTED_FOLDERS) {
    isDone("the collected copy", () => {
      if (existsSync(root + folder)) replace(`${root}${folder}/${COLLECTED_NAME}`, certificate);
    });
  }
}

function placeIn(folder: string, name: string, content: string | Buffer): string {
  mkdirSync(folder, { recursive: true });
  replace(join(realpathSync(folder), name), content);
  return `${folder}/${name}`;
}

/** Whether `work` succeeded. One place that cannot be written leaves the others. */
function isDone(what: string, work: () => void): boolean {
  try {
    work();
    return true;
  } catch (thrown) {
    logNotice("the certificate of header rules is missing in one place", { what, reason: reasonOf(thrown) });
    return false;
  }
}

/** Undefined: there is none, or it was not written here. */
function readOwn(path: string): string | undefined {
  const stat = existsSync(path) ? lstatSync(path) : undefined;
  return stat?.isFile() && stat.uid === process.getuid?.() ? readBounded(path) : undefined;
}

/** Undefined: no regular file, or an oversized one. */
function readBounded(path: string): string | undefined {
  const fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const stat = fstatSync(fd);
    return stat.isFile() && stat.size <= BUNDLE_MAX_BYTES ? readFileSync(fd, "utf8") : undefined;
  } finally {
    closeSync(fd);
  }
}

interface FileRights {
  mode: number;
  uid: number;
  gid: number;
}

function replace(path: string, content: string | Buffer, rights?: FileRights): void {
  inFolder(dirname(path), (inside) => {
    const fresh = `${inside}/.sandlot-${kernelUuid()}`;
    try {
      writeFileSync(fresh, content, { flag: "wx", mode: 0o644 });
      if (rights !== undefined) {
        chownSync(fresh, rights.uid, rights.gid);
        chmodSync(fresh, rights.mode);
      }
      renameSync(fresh, `${inside}/${basename(path)}`);
    } catch (thrown) {
      rmSync(fresh, { force: true });
      throw thrown;
    }
  });
}

/** `work` gets a path that leads to this folder, whatever happens to its names. */
function inFolder(folder: string, work: (inside: string) => void): void {
  const fd = openSync(folder, O_RDONLY | O_DIRECTORY);
  try {
    const inside = `/proc/self/fd/${fd}`;
    if (readlinkSync(inside) !== folder) throw new Fault(409, `${folder} is behind a link`);
    work(inside);
  } finally {
    closeSync(fd);
  }
}

function reasonOf(thrown: unknown): string {
  return systemCode(thrown) || errorMessage(thrown);
}
