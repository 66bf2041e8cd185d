/** The memory of a cgroup of the real kernel. */
import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CGROUP_ROOT, cgroupLayout } from "./cgroups.ts";
import { memoryInUse, reclaimFileOf } from "./memory-in-use.ts";
import { makeParentCgroup } from "./parents.ts";
import { removeCgroups } from "./removal.ts";

const PATH = `/sandlot-test-memory-${process.pid}`;
const MIB = 1024 * 1024;
const FILE_MIB = 16;

// Guards against a cgroup that stays in the kernel, invisible, until the file is removed.
test("file pages charged to a cgroup are freed before its removal", async () => {
  const folder = mkdtempSync(join(tmpdir(), "cgroup-memory-"));
  const file = join(folder, "file");
  makeParentCgroup(PATH);
  const cgroup = `${PATH}/reader`;
  const memory = join(cgroupLayout() === "v2" ? CGROUP_ROOT : join(CGROUP_ROOT, "memory"), cgroup);
  mkdirSync(memory, { recursive: true });
  try {
    const script = `echo $$ > "$1/cgroup.procs"; head -c ${FILE_MIB * MIB} /dev/zero > "$2"; sync "$2"; cat "$2" > /dev/null`;
    const reader = Bun.spawn(["/bin/sh", "-c", script, "sh", memory, file]);
    expect(await reader.exited).toBe(0);
    expect(memoryInUse(cgroup)).toBeGreaterThan((FILE_MIB / 2) * MIB);
    const emptying = reclaimFileOf(cgroup);
    // A kernel without this feature has nothing to test here.
    if (emptying === undefined) return;
    try {
      writeFileSync(emptying.file, emptying.text);
    } catch {
      // Not all of it could be had; what counts is how much.
    }
    expect(memoryInUse(cgroup)).toBeLessThan((FILE_MIB / 4) * MIB);
    expect(reclaimFileOf(`${PATH}/none`)).toBeUndefined();
  } finally {
    await removeCgroups(PATH);
    rmSync(folder, { recursive: true });
  }
});
