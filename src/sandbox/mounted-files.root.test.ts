/** Which files a sandbox shares with the checkpoint it is made from. */
import { expect, test } from "bun:test";
import { readFileSync, statSync } from "node:fs";
import { folderOfFile } from "../base/testing/test-folder.ts";
import { OWN_FOLDER } from "./checkpoint/manifest.ts";
import { inheritedFiles, keptFiles, makeBootIdFile, makeControlSecret } from "./mounted-files.ts";

const folder = folderOfFile("own-files");

const mounted = (...names: string[]) => ({
  mounts: [
    { inside: "/sys", outside: "/elsewhere" },
    ...names.map((name) => ({ inside: `/inside/${name}`, outside: `${OWN_FOLDER}/${name}` })),
  ],
});

test("a checkpoint contains no secret and no memory figures; a copy has its own boot id", () => {
  const record = mounted("boot-id", "control-secret", "memory/meminfo");
  expect(keptFiles(record)).toEqual(["boot-id"]);
  expect(inheritedFiles(record, false)).toEqual(["boot-id"]);
  expect(inheritedFiles(record, true)).toEqual([]);
});

test("a secret is new each time, of fixed length, and readable for the sandbox's root only", () => {
  const ids = { first: 1_900_065_536 };
  const first = makeControlSecret(folder, ids);
  const second = makeControlSecret(folder, ids);
  expect(first.path).toBe(second.path);
  expect(first.secret).not.toBe(second.secret);
  expect(readFileSync(second.path, "utf8")).toBe(second.secret);
  expect(second.secret).toMatch(/^[0-9a-f]{64}$/);
  expect(statSync(second.path)).toMatchObject({ mode: 0o100400, uid: ids.first, gid: ids.first });
  expect(readFileSync(makeBootIdFile(folder), "utf8")).not.toBe(readFileSync(makeBootIdFile(folder), "utf8"));
});
