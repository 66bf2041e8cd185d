/** Removal of cgroups of the real kernel. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cgroupTrees } from "./cgroups.ts";
import { freeze, freezerOf } from "./freezer.ts";
import { endCgroup, removeCgroups } from "./removal.ts";

const PATH = `/sandlot-test-cgroups-${process.pid}`;
const ROUNDS = 20;
const REMOVERS = 4;

function folders(): string[] {
  return cgroupTrees().map((tree) => join(tree, PATH));
}

test("concurrent removals of one cgroup with running processes succeed", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    for (const folder of folders()) for (const name of ["a", "b/c"]) mkdirSync(join(folder, name), { recursive: true });
    const child = Bun.spawn(["sleep", "600"]);
    writeFileSync(join(freezerOf(PATH), "b/c/cgroup.procs"), String(child.pid));
    await Promise.all(Array.from({ length: REMOVERS }, () => removeCgroups(PATH)));
    expect(folders().filter((folder) => existsSync(folder))).toEqual([]);
    expect(await child.exited).not.toBe(0);
  }
});

const procsOf = (name: string) => join(freezerOf(PATH), name, "cgroup.procs");

test("all processes of a cgroup tree are killed, also new and frozen ones", async () => {
  for (const folder of folders()) for (const name of ["a", "b/c"]) mkdirSync(join(folder, name), { recursive: true });
  const [starting, still] = [Bun.spawn(["sh", "-c", "while :; do sleep 0.01; done"]), Bun.spawn(["sleep", "600"])];
  const places = { a: starting, "b/c": still };
  for (const [name, { pid }] of Object.entries(places)) writeFileSync(procsOf(name), String(pid));
  await freeze(`${PATH}/b/c`);
  await endCgroup(PATH);
  expect(Object.keys(places).map((name) => readFileSync(procsOf(name), "utf8"))).toEqual(["", ""]);
  expect(await Promise.all([starting.exited, still.exited])).not.toContain(0);
  await removeCgroups(PATH);
});
