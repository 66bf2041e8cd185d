/**
 * The certificate of header rules in roots of several distributions: added, found by variables, removed without a
 * trace; and roots that mislead the guest.
 */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { trustRules } from "./rule-trust.ts";

const pem = (letter: string) => `-----BEGIN CERTIFICATE-----\n${letter.repeat(64)}\n-----END CERTIFICATE-----\n`;
const [OWN, NEXT, PUBLIC] = [pem("A"), pem("B"), pem("C")];
const BUNDLE_VARIABLES = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE"];

let root = "";
let folder = "";
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "sandlot-trust-")));
  folder = join(root, "run/e2b");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const trust = (certificate: string | undefined) => trustRules(certificate, { root, folder });

function put(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

function link(path: string, target: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  symlinkSync(target, join(root, path));
}

const read = (path: string) => readFileSync(join(root, path), "utf8");
const allFiles = () =>
  readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.startsWith(folder))
    .map(({ parentPath, name }) => join(parentPath, name));

/** The bundle of each distribution, and its other names. */
const LAYOUTS: [string, string, Record<string, string>, string[]][] = [
  ["Debian", "/etc/ssl/certs/ca-certificates.crt", {}, ["/usr/local/share/ca-certificates"]],
  [
    "Alpine",
    "/etc/ssl/certs/ca-certificates.crt",
    { "/etc/ssl/cert.pem": "certs/ca-certificates.crt" },
    ["/usr/local/share/ca-certificates"],
  ],
  [
    "Fedora",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    {
      "/etc/pki/tls/certs/ca-bundle.crt": "../../ca-trust/extracted/pem/tls-ca-bundle.pem",
      "/etc/ssl/certs": "../pki/tls/certs",
      "/etc/pki/tls/certs/ca-certificates.crt": "ca-bundle.crt",
    },
    ["/etc/pki/ca-trust/source/anchors"],
  ],
];

describe.each(LAYOUTS)("a root like %s", (_, bundle, links, folders) => {
  beforeEach(() => {
    put(bundle, PUBLIC);
    for (const [path, target] of Object.entries(links)) link(path, target);
    for (const each of folders) mkdirSync(join(root, each), { recursive: true });
  });

  test("trusts the certificate beside the image's own, and no longer once it is removed", () => {
    const before = allFiles();
    const variables = trust(OWN);
    expect(read(bundle)).toBe(PUBLIC + OWN);
    for (const name of BUNDLE_VARIABLES) expect(read(variables[name] ?? "")).toBe(PUBLIC + OWN);
    expect(read(variables.NODE_EXTRA_CA_CERTS ?? "")).toBe(OWN);
    for (const each of folders) expect(read(`${each}/sandlot-rules.crt`)).toBe(OWN);
    expect(trust(OWN)).toEqual(variables);
    expect(read(bundle)).toBe(PUBLIC + OWN);

    expect(trust(undefined)).toEqual({});
    expect(read(bundle)).toBe(PUBLIC);
    expect(allFiles()).toEqual(before);
  });

  test("trusts only the newest certificate", () => {
    trust(OWN);
    trust(NEXT);
    expect(read(bundle)).toBe(PUBLIC + NEXT);
    for (const each of folders) expect(read(`${each}/sandlot-rules.crt`)).toBe(NEXT);
  });

  test("loses the certificate also from a bundle that the distribution wrote anew", () => {
    trust(OWN);
    writeFileSync(join(root, bundle), OWN + PUBLIC);
    trust(undefined);
    expect(read(bundle)).toBe(PUBLIC);
  });
});

test("a root without a bundle gets one with the public roots, which is removed with the certificate", () => {
  const { SSL_CERT_FILE = "" } = trust(OWN);
  expect(SSL_CERT_FILE).toBe("/etc/ssl/certs/ca-certificates.crt");
  expect(read(SSL_CERT_FILE).match(/BEGIN CERTIFICATE/g)?.length).toBeGreaterThan(50);
  expect(read(SSL_CERT_FILE)).toEndWith(OWN);
  trust(undefined);
  expect(allFiles()).toEqual([]);
});

test("a root that takes no files in /etc is left alone, and variables lead to files of the guest", () => {
  put("/etc", "a file in place of the folder");
  const variables = trust(OWN);
  expect(readFileSync(variables.NODE_EXTRA_CA_CERTS ?? "", "utf8")).toBe(OWN);
  expect(readFileSync(variables.SSL_CERT_FILE ?? "", "utf8")).toEndWith(OWN);
  expect(read("/etc")).toBe("a file in place of the folder");
});

test("settings without a certificate change nothing", () => {
  put("/etc/ssl/certs/ca-certificates.crt", PUBLIC + OWN);
  expect(trust(undefined)).toEqual({});
  expect(read("/etc/ssl/certs/ca-certificates.crt")).toBe(PUBLIC + OWN);
});

describe("links of a hostile user or image lead the guest to no other file:", () => {
  const SECRET_TEXT = "root:secret";

  test("a link in place of the collected copy, and of its folder", () => {
    put("/etc/ssl/certs/ca-certificates.crt", PUBLIC);
    put("/etc/shadow", SECRET_TEXT);
    link("/usr/local/share/ca-certificates/sandlot-rules.crt", "../../../../etc/shadow");
    mkdirSync(join(root, "/srv/elsewhere"), { recursive: true });
    link("/etc/pki/ca-trust/source/anchors", "../../../../srv/elsewhere");
    trust(OWN);
    trust(undefined);
    expect(read("/etc/shadow")).toBe(SECRET_TEXT);
    expect(readdirSync(join(root, "/srv/elsewhere"))).toEqual([]);
  });

  test("a bundle that is no bundle, outside of the system's folders, a pipe or a loop", () => {
    put("/etc/shadow", SECRET_TEXT);
    put("/home/user/bundle.pem", PUBLIC);
    link("/etc/ssl/cert.pem", "../shadow");
    link("/etc/ssl/ca-bundle.pem", "../../home/user/bundle.pem");
    link("/etc/pki/tls/certs/ca-bundle.crt", "ca-bundle.crt");
    mkdirSync(join(root, "/etc/ssl/certs"), { recursive: true });
    Bun.spawnSync(["mkfifo", join(root, "/etc/ssl/certs/ca-certificates.crt")]);
    const { SSL_CERT_FILE = "" } = trust(OWN);
    expect(SSL_CERT_FILE).not.toBe("");
    expect([read("/etc/shadow"), read("/home/user/bundle.pem")]).toEqual([SECRET_TEXT, PUBLIC]);
  });

  test("a link in place of the record", () => {
    put("/etc/ssl/certs/ca-certificates.crt", PUBLIC);
    put("/etc/shadow", SECRET_TEXT);
    link("/etc/ssl/sandlot-rules.pem", "../shadow");
    trust(OWN);
    expect(read("/etc/shadow")).toBe(SECRET_TEXT);
    trust(undefined);
    expect(existsSync(join(root, "/etc/ssl/sandlot-rules.pem"))).toBe(false);
  });
});
