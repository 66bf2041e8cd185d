/** Parents in the kernel's own cgroup v2 tree, with a controller that nothing on this machine uses. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { attempt, run } from "../command.ts";
import { makeParentCgroup, removeEmptyParents } from "./parents.ts";

const folder = mkdtempSync(join(tmpdir(), "sandlot-parents-"));
const tree = join(folder, "tree");
const top = `sandlot-parents-${process.pid}`;
const place = { trees: [tree], tops: [top, `${top}-edge`], note: join(folder, "note"), wanted: [] as string[] };

beforeAll(async () => {
  await run(["mkdir", tree]);
  await run(["mount", "-t", "cgroup2", "cgroup2", tree]);
  const unused = words("cgroup.controllers").filter((name) => !words("cgroup.subtree_control").includes(name));
  if (unused[0] === undefined) throw new Error("this machine passes on every controller of cgroup v2");
  place.wanted.push(unused[0]);
});

afterAll(async () => {
  await attempt(["umount", tree]);
  rmSync(folder, { recursive: true });
});

function words(file: string): string[] {
  return readFileSync(join(tree, file), "utf8").trim().split(" ").filter(Boolean);
}

test("the last server disables the controllers that servers enabled, and no others", () => {
  const before = words("cgroup.subtree_control");
  makeParentCgroup(`${top}/one`, place);
  makeParentCgroup(`${top}/two`, place);
  expect(words("cgroup.subtree_control").sort()).toEqual([...before, ...place.wanted].sort());
  expect(words(`${top}/one/cgroup.controllers`)).toEqual(place.wanted);

  rmdirSync(join(tree, top, "one"));
  removeEmptyParents(place);
  expect(words("cgroup.subtree_control").sort()).toEqual([...before, ...place.wanted].sort());

  rmdirSync(join(tree, top, "two"));
  removeEmptyParents(place);
  expect(words("cgroup.subtree_control")).toEqual(before);
  expect([existsSync(join(tree, top)), existsSync(place.note)]).toEqual([false, false]);
});

test("controllers enabled before the first server stay, and a stale note is ignored", () => {
  const before = words("cgroup.subtree_control");
  writeFileSync(join(tree, "cgroup.subtree_control"), `+${place.wanted[0]}`);
  try {
    writeFileSync(place.note, JSON.stringify({ [tree]: [] }));
    makeParentCgroup(`${top}/one`, place);
    rmdirSync(join(tree, top, "one"));
    removeEmptyParents(place);
    expect(words("cgroup.subtree_control").sort()).toEqual([...before, ...place.wanted].sort());
  } finally {
    writeFileSync(join(tree, "cgroup.subtree_control"), `-${place.wanted[0]}`);
  }
});
