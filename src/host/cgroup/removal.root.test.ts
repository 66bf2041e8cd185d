/** Cgroups of the real kernel. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cgroupTrees } from "./cgroups.ts";
import { freezerOf } from "./freezer.ts";
import { removeCgroups } from "./removal.ts";

const PATH = `/sandlot-test-cgroups-${process.pid}`;
const ROUNDS = 20;
const REMOVERS = 4;

function folders(): string[] {
  return cgroupTrees().map((tree) => join(tree, PATH));
}

test("several may remove one cgroup at the same time, with all that runs below it", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    for (const folder of folders()) for (const name of ["a", "b/c"]) mkdirSync(join(folder, name), { recursive: true });
    const child = Bun.spawn(["sleep", "600"]);
    writeFileSync(join(freezerOf(PATH), "b/c/cgroup.procs"), String(child.pid));
    await Promise.all(Array.from({ length: REMOVERS }, () => removeCgroups(PATH)));
    expect(folders().filter((folder) => existsSync(folder))).toEqual([]);
    expect(await child.exited).not.toBe(0);
  }
});
