/** The doctor's address checks. Needs root only for the tool that makes certificates, and for names below localhost. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { LocalAuthority } from "../../tls/local-authority.ts";
import { makeCertificate } from "../../tls/testing/certificates.ts";
import { addressChecks } from "./address-checks.ts";
import type { DoctorOptions } from "./finding.ts";

const DOMAIN = "sandlot.localhost";
const folder = folderOfFile("doctor");

function findingOf(options: Partial<DoctorOptions>) {
  const folders = { dataFolder: join(folder, "none"), cacheFolder: folder, guestFolder: folder };
  return addressChecks({ ...folders, domain: DOMAIN, ...options })[0]?.run();
}

test("without a certificate there is no finding", async () => {
  expect(await findingOf({})).toEqual({ status: "ok", detail: "no certificate, so plain HTTP only" });
});

test("the certificate of sandlot tls and the resolution of its names are checked", async () => {
  const dataFolder = join(folder, "local");
  await new LocalAuthority(dataFolder).renew(DOMAIN, Date.now());
  expect(await findingOf({ dataFolder })).toEqual({
    status: "ok",
    detail: expect.stringMatching(/^\*\.sandlot\.localhost until \d{4}-\d\d-\d\d; Node finds .*127\.0\.0\.1/),
  });
  expect(await findingOf({ dataFolder, domain: "another.localhost" })).toMatchObject({
    status: "degraded",
    lost: "clients refuse https://*.another.localhost",
    fix: "run `sandlot tls`",
  });
});

test("an unusable certificate of the operator is broken", async () => {
  const [one, other] = [await made("one"), await made("other")];
  expect(await findingOf({ certificate: { cert: one.cert, key: other.key } })).toEqual({
    status: "broken",
    detail: `the key in ${other.key} is not the one of the certificate in ${one.cert}`,
    fix: `put one for *.${DOMAIN} there`,
  });
});

const made = (name: string) => makeCertificate(folder, { name });
