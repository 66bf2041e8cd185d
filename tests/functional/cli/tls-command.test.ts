/** `sandlot tls` reports what it made, whether clients on this machine can use it, and otherwise what to do. */
import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeCertificate } from "../../../src/tls/testing/certificates.ts";
import { sandlotTls } from "../../support/programs/sandlot-tls.ts";
import { newDataFolder } from "../../support/server.ts";

test("without name resolution below localhost, `sandlot tls` prints the fix", async () => {
  const folder = newDataFolder("tls-names");
  mkdirSync(folder, { recursive: true });
  const services = join(folder, "nsswitch.conf");
  writeFileSync(services, readFileSync("/etc/nsswitch.conf", "utf8").replace(/^hosts:.*/m, "hosts: files"));
  const { exitCode, stdout } = await sandlotTls(folder, {}, `mount --bind ${services} /etc/nsswitch.conf`);
  expect(stdout).toMatch(
    /^look-up +Node finds nothing, Python finds nothing for 49983-\w+\.sandlot\.localhost\n +FIX: apt-get install libnss-myhostname /m,
  );
  expect(exitCode).toBe(1);

  const again = await sandlotTls(folder);
  expect(again.stdout).toMatch(/^certificate +.*: unchanged$/m);
  expect(again.stdout).toMatch(/^names +sandlot\.localhost and \*\.sandlot\.localhost, until \d{4}-\d\d-\d\d$/m);
  expect(again.exitCode).toBe(0);
});

test("`sandlot tls` checks the operator's certificate and makes none", async () => {
  const folder = newDataFolder("tls-own");
  const files = await makeCertificate(join(folder, "own"), { name: "own", domain: "elsewhere.localhost" });
  const settings = { SANDLOT_TLS_CERT: files.cert, SANDLOT_TLS_KEY: files.key };
  const wrong = await sandlotTls(folder, { ...settings, SANDLOT_DOMAIN: "sandboxes.localhost" });
  expect(wrong.stdout).toContain(`clients will refuse ${files.cert}: it is not for *.sandboxes.localhost`);
  expect(wrong.exitCode).toBe(1);
  const right = await sandlotTls(folder, { ...settings, SANDLOT_DOMAIN: "elsewhere.localhost" });
  expect(right.exitCode).toBe(0);
  expect(right.stdout).not.toContain("authority");
  expect(right.stdout).toContain("  export E2B_DOMAIN=elsewhere.localhost\n");
});
