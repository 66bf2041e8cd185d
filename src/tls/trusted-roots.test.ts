import { expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { trustedRoots } from "./trusted-roots.ts";

test("the machine's authorities are replaced and extended as the variables say", () => {
  const folder = mkdtempSync(join(tmpdir(), "trusted-roots-"));
  try {
    const [own, extra] = [join(folder, "own.pem"), join(folder, "extra.pem")];
    writeFileSync(own, "own\n");
    writeFileSync(extra, "extra\n");
    expect(trustedRoots({ SSL_CERT_FILE: own })).toBe("own\n\n");
    expect(trustedRoots({ SSL_CERT_FILE: own, NODE_EXTRA_CA_CERTS: extra })).toBe("own\n\nextra\n");
    expect(trustedRoots({ NODE_EXTRA_CA_CERTS: extra })).toEndWith("\nextra\n");
    if (existsSync("/etc/ssl/certs/ca-certificates.crt")) expect(trustedRoots({})).toContain("BEGIN CERTIFICATE");
    const missing = () => trustedRoots({ NODE_EXTRA_CA_CERTS: join(folder, "gone.pem") });
    expect(missing).toThrow("NODE_EXTRA_CA_CERTS names");
    writeFileSync(own, "x".repeat(2 * 1024 * 1024));
    expect(() => trustedRoots({ SSL_CERT_FILE: own })).toThrow("at most 1048576 are possible");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
