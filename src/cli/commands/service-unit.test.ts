import { describe, expect, test } from "bun:test";
import { unitText, unitWord } from "./service-unit.ts";

const SETTINGS = {
  bun: "/usr/lib/node_modules/sandlot/node_modules/bun/bin/bun.exe",
  main: "/usr/lib/node_modules/sandlot/src/cli/main.ts",
  page: "/usr/lib/node_modules/sandlot/docs/install.md",
  watchdogMs: 60_000,
  stopMs: 300_000,
  systemdVersion: 257,
};

describe("the unit of the service", () => {
  const lines = unitText(SETTINGS).split("\n");

  test("starts the server itself, so that systemd watches its process", () => {
    expect(lines).toContain(`ExecStart=${SETTINGS.bun} ${SETTINGS.main} up`);
    expect(lines).toContain("Type=notify");
    expect(lines).toContain("WatchdogSec=60");
    expect(lines).toContain("TimeoutStopSec=300");
  });

  test("leaves sandboxes alone when it stops", () => {
    expect(lines).toContain("KillMode=mixed");
    expect(lines).toContain("Delegate=yes");
    expect(lines).toContain("OOMPolicy=continue");
  });

  test("has no setting that sandboxes would inherit or that would hide mounts", () => {
    const inherited = /^(?:NoNewPrivileges|SystemCall|Restrict|Lock|Memory|Private|Protect|ReadOnly|Inaccessible)/;
    expect(lines.filter((line) => inherited.test(line))).toEqual([]);
    expect(lines).toContain("IgnoreSIGPIPE=no");
  });

  test("restarts with growing pauses where systemd knows them, and never gives up", () => {
    expect(lines).toContain("RestartMaxDelaySec=60");
    expect(lines).toContain("StartLimitIntervalSec=0");
    const older = unitText({ ...SETTINGS, systemdVersion: 252 });
    expect(older).not.toContain("RestartMaxDelaySec");
    expect(older).toContain("\nRestartSec=10\n");
  });
});

test.each([
  ["/usr/bin/bun", "/usr/bin/bun"],
  ["/opt/100%/$HOME", "/opt/100%%/$$HOME"],
  ['/opt/my "own"', '"/opt/my \\"own\\""'],
  ["/opt/a;b", '"/opt/a;b"'],
])("%s is one literal word of a command line", (word, written) => {
  expect(unitWord(word)).toBe(written);
});
