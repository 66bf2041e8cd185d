import { expect, test } from "bun:test";
import { unlockedLists } from "./packages.ts";

const LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 17 (apt-get)";

/** Results of consecutive updates; the last one repeats. */
function updates(...errors: string[]) {
  const progress: string[] = [];
  let tries = 0;
  const update = async () => ({ stderr: errors[Math.min(tries++, errors.length - 1)] ?? "" });
  return {
    progress,
    tries: () => tries,
    run: unlockedLists(update, (line) => progress.push(line), { everyMs: 0, times: 5 }),
  };
}

test("an update of the package lists waits for another program's lock, with one message", async () => {
  const { run, tries, progress } = updates(LOCKED, LOCKED, "");
  await run;
  expect(tries()).toBe(3);
  expect(progress).toHaveLength(1);
});

test("an update that fails for another reason is not repeated", async () => {
  const { run, tries, progress } = updates("E: Could not resolve a host");
  await run;
  expect(tries()).toBe(1);
  expect(progress).toEqual([]);
});

test("a lock that stays is given up", async () => {
  const { run, tries } = updates(LOCKED);
  await run;
  expect(tries()).toBe(5);
});
