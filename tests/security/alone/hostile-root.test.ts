/**
 * Images with malicious links where a sandbox has its own mounts, devices and hidden files: the isolation runtime must
 * not follow them, neither to the machine's files nor to nothing (CVE-2025-31133, -52565, -52881).
 */
import { describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Found, openIn } from "../attacks/attempts.ts";
import { BareSandbox } from "../attacks/bare-sandbox.ts";

/** Each link, and where it leads. */
const LINKS: Record<string, string>[] = [
  { "dev/null": "/proc/sysrq-trigger", "dev/console": "/proc/sys/kernel/core_pattern", "dev/pts": "/proc" },
  { proc: "/tmp/proc" },
  { proc: "../../../../../../proc" },
  { dev: "/tmp/dev", sys: "/tmp/sys" },
  { dev: "../../../../../../dev", sys: "../../../../../../sys" },
  { dev: "/proc/self/fd" },
  { run: "/proc/1/root/run" },
  { ".sandlot": "/proc/1/root/etc" },
];

/** The kernel's errors for a path that leads out of a root, or nowhere. */
const REFUSALS = /is invalid: Not a directory|Invalid cross-device link|Too many levels of symbolic links/;
/** This sandbox has a root in memory, and no disk. */
const DISK = "15";

describe("an image with links in place of what is mounted and hidden", () => {
  test.each(LINKS.map((links, at) => ({ at, links })))("$links", async ({ at, links }) => {
    await using sandbox = new BareSandbox(`root-${at}`);
    const made = sandbox.attacked(["attacks"], (root) => {
      for (const [path, target] of Object.entries(links)) {
        const place = join(root, path);
        rmSync(place, { recursive: true, force: true });
        mkdirSync(dirname(place), { recursive: true });
        symlinkSync(target, place);
      }
      for (const name of ["dev", "proc", "sys"]) mkdirSync(join(root, "tmp", name), { recursive: true });
      writeFileSync(join(root, "tmp/proc/kallsyms"), "not the kernel's");
    });
    // To reject such an image is as good.
    const output = await made.catch((error: Error) => error);
    if (output instanceof Error) {
      expect(output.message).toMatch(REFUSALS);
      return;
    }
    const { [DISK]: _, ...open } = openIn(JSON.parse(output) as Found);
    expect(Object.values(open).flat()).toEqual([]);
  });
});
