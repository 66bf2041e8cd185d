import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mergedPages, modulesFinding, processors } from "./wall-checks.ts";

const KNOWN = [
  "kernel/crypto/algif_aead.ko.xz: kernel/crypto/af_alg.ko.xz",
  "kernel/crypto/af_alg.ko.xz:",
  "kernel/net/tipc/tipc.ko:",
  "kernel/net/ipv4/esp4.ko.zst: kernel/net/xfrm/x.ko.zst",
  "kernel/fs/overlayfs/overlay.ko:",
].join("\n");
const NONE = () => false;

/** What was asked for in the fix, if anything. */
function asked(known: string, config: string, isLoaded: (name: string) => boolean = NONE): string[] {
  const finding = modulesFinding(known, config, isLoaded);
  return finding.status === "degraded" ? (/\\n' (.*) > \/etc/.exec(finding.fix)?.[1]?.split(" ") ?? []) : [];
}

test("modules that would be loaded are told of, with what refuses them", () => {
  expect(asked(KNOWN, "")).toEqual(["af_alg", "algif_aead", "esp4", "tipc"]);
  expect(asked(KNOWN, "install algif-aead /bin/false\ninstall tipc /usr/bin/true # not here\nblacklist esp4")).toEqual([
    "af_alg",
  ]);
  expect(asked(KNOWN, "install tipc /sbin/modprobe --ignore-install tipc")).toContain("tipc");
});

test("those that this machine uses, or does not have, are its own business", () => {
  expect(asked(KNOWN, "", (name) => name !== "tipc")).toEqual(["tipc"]);
  expect(modulesFinding("", "", NONE).status).toBe("ok");
});

test("merged pages and holes of the processors are told of", () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-doctor-"));
  try {
    const [holes, ksm] = [join(folder, "vulnerabilities"), join(folder, "run")];
    expect(processors(holes).status).toBe("ok");
    mkdirSync(holes);
    writeFileSync(join(holes, "meltdown"), "Not affected\n");
    writeFileSync(join(holes, "l1tf"), "Mitigation: PTE Inversion; VMX: conditional cache flushes, SMT disabled\n");
    expect(processors(holes).status).toBe("ok");
    writeFileSync(join(holes, "mds"), "Mitigation: Clear CPU buffers; SMT vulnerable\n");
    expect(processors(holes)).toMatchObject({
      detail: "holes that are open: mds",
      fix: expect.stringContaining("smt"),
    });
    writeFileSync(join(holes, "spectre_v2"), "Vulnerable\n");
    expect(processors(holes)).toMatchObject({ status: "degraded", fix: expect.stringContaining("mitigations=off") });

    expect(mergedPages(ksm).status).toBe("ok");
    writeFileSync(ksm, "0\n");
    expect(mergedPages(ksm).status).toBe("ok");
    writeFileSync(ksm, "1\n");
    expect(mergedPages(ksm)).toMatchObject({ status: "degraded", fix: `echo 2 > ${ksm}` });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
