/** Where a backup may go, and which ones this program reads. */
import { expect, test } from "bun:test";
import { parseContents } from "./contents.ts";
import { requireTarget } from "./repository.ts";

test("a target is an absolute path or a repository of restic, and needs a password", () => {
  const env = { RESTIC_PASSWORD_FILE: "/root/password" };
  for (const target of ["/backups", "s3:https://s3.example.com/bucket", "sftp:user@host:/backups"]) {
    requireTarget(target, env);
    expect(() => requireTarget(target, {})).toThrow("set RESTIC_PASSWORD_FILE");
  }
  for (const target of ["backups", "", "s3:"]) {
    expect(() => requireTarget(target, env)).toThrow(`not "${target}"`);
  }
});

test("a backup of a later version is refused with the name of that version", () => {
  const contents = { format: 1, program: "9.1.0", storeVersion: 12 };
  expect(parseContents(JSON.stringify(contents), 12)).toMatchObject(contents);
  const tables = "this backup has tables of version 12, and this program reads up to 11";
  expect(() => parseContents(JSON.stringify(contents), 11)).toThrow(`${tables}. FIX: restore it with sandlot 9.1.0`);
  const later = JSON.stringify({ ...contents, format: 2 });
  expect(() => parseContents(later, 12)).toThrow("this backup has format 2, and this program reads up to 1");
});
