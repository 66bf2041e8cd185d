import { expect, test } from "bun:test";
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfTest } from "../../base/testing/test-folder.ts";
import { removeUnit, requireOwnUnit } from "./service-files.ts";
import { UNIT_MARK } from "./service-unit.ts";

const folder = folderOfTest("service");
const unit = join(folder, "sandlot.service");
const link = join(folder, "multi-user.target.wants/sandlot.service");
const left = () => readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();

/** The files of an enabled service; `target`: of its link. */
function install(target = unit): void {
  writeFileSync(unit, `${UNIT_MARK}\n[Unit]\n`);
  mkdirSync(`${unit}.d`);
  writeFileSync(join(`${unit}.d`, "override.conf"), "");
  mkdirSync(join(folder, "multi-user.target.wants"));
  symlinkSync(target, link);
}

test("a unit of another author is rejected; a missing one and one of Sandlot are not", () => {
  requireOwnUnit(unit);
  install();
  requireOwnUnit(unit);
  writeFileSync(unit, "[Unit]\n");
  expect(() => requireOwnUnit(unit)).toThrow(`${unit} was not written by \`sandlot install\`. FIX: systemctl disable`);
});

test("a unit is removed with the link that enables it, also without a systemd", () => {
  install();
  removeUnit({ changes: false }, unit);
  expect(left()).toEqual(["multi-user.target.wants", "sandlot.service.d", "sandlot.service.d/override.conf"]);
  removeUnit({ changes: true }, unit);
  expect(left()).toEqual(["multi-user.target.wants"]);
});

test("the link to a unit of a package stays", () => {
  install("/lib/systemd/system/sandlot.service");
  removeUnit({ changes: true }, unit);
  expect(left()).toEqual(["multi-user.target.wants", "multi-user.target.wants/sandlot.service"]);
});
