import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Mounts } from "../../system/mount/mounts.ts";
import { GuestPages } from "./guest-pages.ts";

const folder = mkdtempSync(join(tmpdir(), "sandlot-pages-"));
const mounts = new Mounts();
afterAll(() => {
  mounts.close();
  rmSync(folder, { recursive: true });
});

test("a guest stays in memory until it is released, also if its folder is gone", async () => {
  const [first, second] = [guestIn("first"), guestIn("first-2")];
  const pages = new GuestPages(mounts);
  for (const guest of [first, second]) await pages.hold(guest);
  expect([isMapped(first), isMapped(second)]).toEqual([true, true]);

  rmSync(first, { recursive: true });
  await pages.unlock(first);
  expect([isMapped(first), isMapped(second)]).toEqual([false, true]);

  await pages.unlock(second);
  expect(isMapped(second)).toBe(false);
  await pages.hold(second);
  expect(isMapped(second)).toBe(true);
});

test("a guest stays locked until no sandbox has used it for a while", async () => {
  const [starting, running] = [guestIn("starting"), guestIn("running")];
  const pages = new GuestPages(mounts);
  const start = await pages.hold(starting);
  (await pages.hold(running))[Symbol.dispose]();
  const now = performance.now();
  const unlockUnused = async (seconds: number, ...sandboxes: string[]) => {
    await pages.unlockUnused(
      sandboxes.map((guestFolder) => ({ guestFolder })),
      now + seconds * 1000,
    );
    return [isMapped(starting), isMapped(running)];
  };
  expect(await unlockUnused(60, running)).toEqual([true, true]);
  start[Symbol.dispose]();
  expect(await unlockUnused(65)).toEqual([true, true]);
  expect(await unlockUnused(120, starting)).toEqual([true, false]);
  expect(await unlockUnused(240)).toEqual([false, false]);
  (await pages.hold(running))[Symbol.dispose]();
  expect(isMapped(running)).toBe(true);
});

test("a guest is read in huge pages, if the kernel has them, and locked", async () => {
  const guest = guestIn("third");
  await new GuestPages(mounts).hold(guest);
  const mapped = readFileSync("/proc/self/smaps", "utf8").split(`${guest}/bin/file`)[1] ?? "";
  const flags = /^VmFlags: (.*)$/m.exec(mapped)?.[1]?.trim().split(" ") ?? [];
  expect(flags).toContain("lo");
  if (existsSync("/sys/kernel/mm/transparent_hugepage")) expect(flags).toContain("hg");
});

function guestIn(name: string): string {
  for (const part of ["bin", "lib"]) {
    mkdirSync(join(folder, name, part), { recursive: true });
    writeFileSync(join(folder, name, part, "file"), "some");
  }
  return join(folder, name);
}

function isMapped(guest: string): boolean {
  return readFileSync("/proc/self/maps", "utf8").includes(`${guest}/`);
}
