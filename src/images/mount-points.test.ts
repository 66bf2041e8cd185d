import { beforeEach, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfTest } from "../base/testing/test-folder.ts";
import { requireMountPoints } from "./mount-points.ts";

const folder = folderOfTest("mount-points");
let layers: string[];
beforeEach(() => {
  layers = ["top", "bottom"].map((name) => join(folder, name));
  for (const layer of layers) mkdirSync(layer);
});
const [top, bottom] = [(path: string) => join(layers[0] ?? "", path), (path: string) => join(layers[1] ?? "", path)];

test("folders, missing paths and links to files are accepted", () => {
  requireMountPoints(layers, "/.sandlot");
  for (const path of ["proc", "sys", "dev", "etc"]) mkdirSync(bottom(path));
  symlinkSync("/data/var", bottom("var"));
  // What a layer above has in its place counts.
  symlinkSync("/elsewhere", bottom("run"));
  mkdirSync(top("run"));
  requireMountPoints(layers, "/.sandlot");
});

test.each([
  ["proc", "a symbolic link", (path: string) => symlinkSync("/etc", path)],
  ["sys", "a symbolic link", (path: string) => symlinkSync("nowhere", path)],
  ["dev", "a file", (path: string) => writeFileSync(path, "")],
  ["run", "a symbolic link", (path: string) => symlinkSync("/var/run", path)],
  [".sandlot", "a symbolic link", (path: string) => symlinkSync("/", path)],
  ["etc", "a file", (path: string) => writeFileSync(path, "")],
])("/%s that is %s is rejected by name", (name, kind, make) => {
  mkdirSync(bottom("proc"), { recursive: true });
  make(top(name));
  expect(() => requireMountPoints(layers, "/.sandlot")).toThrow(`/${name} in it is ${kind}; sandboxes`);
});
