/** Where a backup may go, which ones this program reads, and which are old. */
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BACKUP, chosenBackup, olderThan, PART_TAG, parseContents } from "./contents.ts";
import { unpackDisk } from "./packed-disk.ts";
import { Repository, requireTarget } from "./repository.ts";

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

const contents = {
  format: 1 as const,
  program: "9.1.0",
  storeVersion: 12,
  createdAt: "2026-11-19T00:00:00.000Z",
  cacheFolder: "/var/cache/sandlot",
  main: "1",
  cached: { "images/base-4": "2" },
  images: null,
  volumes: { cabinet: { sizeMB: 64, snapshot: "3" } },
  missing: [{ name: "volume lost", reason: "it is unreadable" }],
};

test.each([
  ["text that is not JSON", "{"],
  ["another type", "null"],
  ["no version", JSON.stringify({ ...contents, program: undefined })],
  ["a missing field", JSON.stringify({ ...contents, volumes: undefined })],
  ["a field of a wrong type", JSON.stringify({ ...contents, volumes: { cabinet: { sizeMB: "64", snapshot: "3" } } })],
])("contents with %s are damage", (_, text) => {
  expect(() => parseContents(text, 12)).toThrow("this backup is damaged: its /backup.json is invalid");
});

test.each([["{"], ["[]"], ['{"bytes":1,"parts":[[0]]}'], ['{"bytes":-1,"parts":[]}']])(
  "a packed disk with the list %s is damage",
  (list) => {
    const folder = mkdtempSync(join(tmpdir(), "sandlot-packed-"));
    try {
      writeFileSync(join(folder, "disk.parts"), list);
      expect(() => unpackDisk(join(folder, "disk"), join(folder, "new"))).toThrow("disk.parts is invalid");
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

test("a backup of a later version is refused with the name of that version", () => {
  expect(parseContents(JSON.stringify(contents), 12)).toEqual(contents);
  const tables = "this backup has tables of version 12, and this program reads up to 11";
  expect(() => parseContents(JSON.stringify(contents), 11)).toThrow(`${tables}. FIX: restore it with sandlot 9.1.0`);
  const later = JSON.stringify({ ...contents, format: 2 });
  expect(() => parseContents(later, 12)).toThrow("this backup has format 2, and this program reads up to 1");
});

test("old backups are removed as a whole, with the remains of failed ones, but never the newest", () => {
  const group = (n: number) => `backup-00000000-0000-0000-0000-00000000000${n}`;
  const made = (id: string, day: number, ...tags: string[]) => ({ id, time: `2026-11-0${day}T00:00:00Z`, tags });
  const remains = made("remains", 1, PART_TAG, group(1));
  const whole = [made("part", 2, PART_TAG, group(2)), made("whole", 3, BACKUP, group(2))];
  const newest = [made("newest-part", 4, PART_TAG, group(3)), made("newest", 5, BACKUP, group(3))];
  const running = made("running", 6, PART_TAG, group(4));
  const all = [remains, ...whole, made("of another program", 3), ...newest, running];
  const before = (day: number) => olderThan(Date.parse(`2026-11-0${day}T00:00:00Z`), all);
  expect(before(3)).toEqual(["remains"]);
  expect(before(4)).toEqual(["remains", "part", "whole"]);
  expect(before(6)).toEqual(["remains", "part", "whole"]);
});

test("a restore takes the newest backup, or the only one whose id begins as asked", () => {
  const made = (id: string) => ({ id, time: "2026-11-01T00:00:00Z", tags: [BACKUP] });
  const all = [made("1abc"), made("12ef"), { ...made("2part"), tags: [PART_TAG] }, made("3def")];
  const chosen = (id?: string) => chosenBackup(all, id, "/backups").id;
  expect([chosen(), chosen("12"), chosen("1abc")]).toEqual(["3def", "12ef", "1abc"]);
  expect(() => chosen("1")).toThrow('2 backups at /backups have an id that begins with "1". FIX: name more of it');
  for (const id of ["2", "4"]) expect(() => chosen(id)).toThrow(`there is no backup ${id} at /backups`);
});

test("a snapshot that restic does not name is an error", async () => {
  const silent = new Repository("/backups", ["bash", "-c", ":"], "/tmp", {});
  await expect(silent.saveOutput("/file", ["true"], [PART_TAG])).rejects.toThrow(
    "restic could not name the new snapshot",
  );
});

test.each([
  ["a backup", `'{"message_type":"status","bytes_done":7,"current_files":["/x"]}'`, "save"],
  ["a verification", "[0:0$((n++ % 10))] 50.00%  3 / 6 packs", "check"],
  ["a restore", "[0:0$((n++ % 10))] 43.29%  0 files/dirs 16.512 MiB", "restore"],
] as const)("%s that makes no progress for long is ended", async (_, line, work) => {
  const hung = ["bash", "-c", `case $* in *unlock*) exit;; esac; while echo ${line}; do sleep 0.05; done`, "restic"];
  const repository = new Repository("/backups", hung, "/tmp", {}, 500);
  const works = {
    save: () => repository.save("/folder", [PART_TAG]),
    check: () => repository.check(),
    restore: () => repository.restore("1", "/folder", "/tmp", []),
  };
  await expect(works[work]()).rejects.toThrow("restic at /backups made no progress for");
});

test("a file that is passed on without progress for long is ended", async () => {
  const hung = new Repository("/backups", ["bash", "-c", "exec sleep 60", "restic"], "/tmp", {}, 500);
  await expect(hung.pipe("1", "/file", ["cat"])).rejects.toThrow("restic at /backups made no progress for");
});

test("the exit code of a command is known, whatever it printed", async () => {
  const repository = new Repository("/backups", ["bash", "-c", "printf '1\\n2\\n'", "restic"], "/tmp", {});
  const dots = ["bash", "-c", "while read -r; do printf .; done; exit 3"];
  expect(await repository.pipe("1", "/file", dots)).toMatchObject({ exitCode: 3 });
});

test.each([
  ["retries", "echo 'retrying after 9s: Stat: connection refused' >&2; exec sleep 60", "retrying after 9s: Stat: conn"],
  ["is silent", "exec sleep 60", "nothing"],
])("a target that %s is an error", async (_, line, reason) => {
  const asked = new Repository("s3:http://example.com/b", ["bash", "-c", line], "/tmp", {}, undefined, 500);
  const message = "s3:http://example.com/b could not be opened within 0.5 seconds. FIX: check its address and the ";
  await expect(asked.require()).rejects.toThrow(`${message}credentials. restic said: ${reason}`);
});
