import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { modulesFinding, processors } from "./isolation-checks.ts";

/** As of a stock kernel, in parts. */
const ALIASES = [
  "alias net-pf-31 bluetooth",
  "alias net-pf-16-proto-6 xfrm_user",
  "alias xfrm-type-2-50 esp4",
  "alias net-pf-38 af_alg",
  "alias net-pf-40 vsock",
  "alias net-pf-3 ax25",
  "alias net-pf-11 rose",
  "alias net-pf-30 tipc",
  "alias net-pf-2-proto-0-type-6 dccp_ipv4",
  "alias tty-ldisc-21 n_gsm",
  "alias rds-something rds",
  "alias pci:v00008086d* e1000e",
].join("\n");
const NONE = () => false;

/** What the fix asks for, if anything. */
function requestsMade(aliases: string, config: string, isLoaded: (name: string) => boolean = NONE): string[] {
  const finding = modulesFinding(aliases, config, isLoaded);
  return finding.status === "degraded" ? (/\\n' (.*) > \/etc/.exec(finding.fix)?.[1]?.split(" ") ?? []) : [];
}

test("rare loadable protocols are reported, and no common ones", () => {
  expect(requestsMade(ALIASES, "")).toEqual(["ax25", "dccp_ipv4", "n_gsm", "rose", "tipc"]);
});

test("blocked modules are not reported, in any notation", () => {
  const config = [
    "blacklist rose",
    "install dccp-ipv4 /bin/false",
    "install tipc /usr/bin/true # no",
    "alias net_pf_3 off",
  ];
  expect(requestsMade(ALIASES, config.join("\n"))).toEqual(["n_gsm"]);
  expect(requestsMade(ALIASES, "install tipc /sbin/modprobe --ignore-install tipc")).toContain("tipc");
});

test("the fix blocks only requests of programs: drivers still load their modules", () => {
  const finding = modulesFinding(ALIASES, "", NONE);
  expect(finding).toMatchObject({
    fix: "printf 'blacklist %s\\n' ax25 dccp_ipv4 n_gsm rose tipc > /etc/modprobe.d/sandlot.conf",
  });
});

test("modules that this machine uses or lacks are not reported", () => {
  expect(requestsMade(ALIASES, "", (name) => name !== "tipc")).toEqual(["tipc"]);
  expect(modulesFinding("", "", NONE).status).toBe("ok");
});

test("processor vulnerabilities are reported", () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-doctor-"));
  try {
    const reports = join(folder, "vulnerabilities");
    expect(processors(reports).status).toBe("ok");
    mkdirSync(reports);
    writeFileSync(join(reports, "meltdown"), "Not affected\n");
    writeFileSync(join(reports, "l1tf"), "Mitigation: PTE Inversion; VMX: conditional cache flushes, SMT disabled\n");
    expect(processors(reports).status).toBe("ok");
    writeFileSync(join(reports, "mds"), "Mitigation: Clear CPU buffers; SMT vulnerable\n");
    expect(processors(reports)).toMatchObject({
      detail: "open processor vulnerabilities: mds",
      fix: expect.stringContaining("smt"),
    });
    writeFileSync(join(reports, "spectre_v2"), "Vulnerable\n");
    expect(processors(reports)).toMatchObject({
      status: "degraded",
      fix: expect.stringContaining("mitigations=off"),
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
