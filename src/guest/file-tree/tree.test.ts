import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { Accounts } from "../users/accounts.ts";
import { LIST_ENTRIES_MAX, list, remove } from "./tree.ts";

const ROUNDS = 100;
const root = folderOfFile("tree");

// Guards against "could not be removed: ENOENT" for a file that vanished between two checks.
test("a concurrent removal is not an error", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const top = `${root}/${round}`;
    mkdirSync(`${top}/a/b/c`, { recursive: true });
    const paths = [top, `${top}/a`, `${top}/a/b`, `${top}/a/b/c`, `${top}/a/b/c/`];
    const outcomes = await Promise.allSettled(paths.map((path) => remove(path)));
    expect(outcomes.filter(({ status }) => status === "rejected")).toEqual([]);
  }
});

test("a list of more entries than the limit is refused", async () => {
  // In memory, for it takes a disk a minute to make so many when others use it, too.
  const crowd = mkdtempSync("/dev/shm/sandlot-crowd-");
  try {
    const { exitCode } = Bun.spawnSync(["sh", "-c", `seq 0 ${LIST_ENTRIES_MAX} | xargs touch`], { cwd: crowd });
    expect(exitCode).toBe(0);
    await expect(list(crowd, 1, new Accounts())).rejects.toMatchObject({
      status: 429,
      errorCode: "resource_exhausted",
      message: expect.stringContaining(`more than ${LIST_ENTRIES_MAX} entries`),
    });
  } finally {
    rmSync(crowd, { recursive: true });
  }
});
