/** The local certificate authority. Needs root only to install the tool that makes certificates. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../base/testing/test-folder.ts";
import { attempt, run } from "../system/command.ts";
import { flawOf, readCertificate } from "./certificate.ts";
import { LocalAuthority } from "./local-authority.ts";

const DOMAIN = "sandlot.localhost";
const DAY_MS = 86_400_000;
const folder = folderOfFile("authority");
let folders = 0;

const newFolder = () => join(folder, `data-${++folders}`);
const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);
const verdict = (authority: LocalAuthority, path = authority.files.cert) =>
  attempt(["openssl", "verify", "-x509_strict", "-CAfile", authority.trustFile, path]);

test("the certificate is valid for the domain and its subdomains, and only the owner can read the keys", async () => {
  const data = newFolder();
  expect(LocalAuthority.find(data)).toBeUndefined();
  const authority = new LocalAuthority(data);
  expect(await authority.renew(DOMAIN, Date.now())).toBe("authority");
  expect(LocalAuthority.find(data)?.files).toEqual(authority.files);

  const certificate = readCertificate(authority.files);
  expect(flawOf(certificate, DOMAIN, Date.now())).toBeUndefined();
  expect([DOMAIN, `api.${DOMAIN}`, `3000-iabc.${DOMAIN}`].map((name) => certificate.isFor(name))).toEqual([
    true,
    true,
    true,
  ]);
  expect(certificate.isFor("localhost")).toBe(false);
  expect(await verdict(authority)).toMatchObject({ exitCode: 0 });

  expect(readdirSync(join(data, "tls")).sort()).toEqual(["authority.pem", "lock", "server.pem"]);
  expect(modeOf(join(data, "tls"))).toBe("700");
  for (const file of ["authority.pem", "server.pem"]) expect(modeOf(join(data, "tls", file))).toBe("600");
  for (const file of [authority.trustFile, authority.bundleFile]) {
    expect(modeOf(file)).toBe("644");
    expect(readFileSync(file, "utf8")).not.toContain("PRIVATE");
  }
});

test("the certificate is kept, renewed before its end, and replaced for another domain", async () => {
  const authority = new LocalAuthority(newFolder());
  const now = Date.now();
  await authority.renew(DOMAIN, now);
  const trusted = readFileSync(authority.trustFile, "utf8");
  const served = readFileSync(authority.files.cert, "utf8");
  expect(await authority.renew(DOMAIN, now + 300 * DAY_MS)).toBe("kept");
  expect(readFileSync(authority.files.cert, "utf8")).toBe(served);

  expect(await authority.renew(DOMAIN, now + 370 * DAY_MS)).toBe("certificate");
  expect(readFileSync(authority.files.cert, "utf8")).not.toBe(served);
  // Clients that trust it need not be told again.
  expect(readFileSync(authority.trustFile, "utf8")).toBe(trusted);
  expect(await verdict(authority)).toMatchObject({ exitCode: 0 });

  const long = `${"long-label-of-a-domain.".repeat(7)}example.com`;
  expect(await authority.renew(long, now)).toBe("authority");
  expect(flawOf(readCertificate(authority.files), long, Date.now())).toBeUndefined();
  expect(readFileSync(authority.trustFile, "utf8")).not.toBe(trusted);
  expect(await authority.renew(long, now + 3_300 * DAY_MS)).toBe("authority");
});

test.each(["authority.pem", "server.pem"])("a damaged %s is made again", async (file) => {
  const data = newFolder();
  const authority = new LocalAuthority(data);
  await authority.renew(DOMAIN, Date.now());
  writeFileSync(join(data, "tls", file), "half");
  await authority.renew(DOMAIN, Date.now());
  expect(await verdict(authority)).toMatchObject({ exitCode: 0 });
  expect(await authority.renew(DOMAIN, Date.now())).toBe("kept");
});

test("concurrent calls make one certificate", async () => {
  const data = newFolder();
  const results = await Promise.all(
    Array.from({ length: 4 }, () => new LocalAuthority(data).renew(DOMAIN, Date.now())),
  );
  expect(results.sort()).toEqual(["authority", "kept", "kept", "kept"]);
  expect(await verdict(new LocalAuthority(data))).toMatchObject({ exitCode: 0 });
  expect(existsSync(join(data, "tls", "scratch"))).toBe(false);
});

test.each([
  ["DNS:example.com", "permitted subtree violation"],
  ["DNS:sandlot.localhost.example.com", "permitted subtree violation"],
  ["IP:127.0.0.1", "excluded subtree violation"],
  ["IP:::1", "excluded subtree violation"],
])("the authority's key cannot sign for %s", async (name, refusal) => {
  const data = newFolder();
  const authority = new LocalAuthority(data);
  await authority.renew(DOMAIN, Date.now());
  const own = join(data, "tls", "authority.pem");
  const forged = join(folder, `forged-${folders}.pem`);
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", `${forged}.key`];
  await run(["openssl", "req", "-new", ...key, "-subj", "/CN=x", "-out", `${forged}.request`]);
  const extensions = ["subjectKeyIdentifier=hash", "authorityKeyIdentifier=keyid", `subjectAltName=${name}`];
  writeFileSync(`${forged}.extensions`, extensions.join("\n"));
  const signing = ["-CA", own, "-CAkey", own, "-set_serial", "7", "-extfile", `${forged}.extensions`];
  await run(["openssl", "x509", "-req", "-in", `${forged}.request`, ...signing, "-out", forged]);
  const { exitCode, stdout, stderr } = await verdict(authority, forged);
  expect(exitCode).not.toBe(0);
  expect(stdout + stderr).toContain(refusal);
});
