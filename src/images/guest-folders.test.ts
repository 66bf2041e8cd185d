/** Guests of several servers in one cache. Their use by sandboxes: guest-uses.root.test.ts. */
import { beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ManualClock } from "../base/testing/manual-clock.ts";
import { folderOfTest } from "../base/testing/test-folder.ts";
import { DataFolder } from "../system/data-folder.ts";
import { chooseGuest, dropGuestMarks, GuestFolders, type GuestUses, guestFolderNamed } from "./guest-folders.ts";
import { CACHE_COLLECTED_EVERY_MS, CACHE_KEPT_MS, CACHE_MARK_KEPT_MS } from "./marked-folders.ts";

const clock = new ManualClock(Date.parse("2026-01-01"));
const folder = folderOfTest("guests");
let cache: string;
let first: DataFolder;
let second: DataFolder;

beforeEach(() => {
  cache = join(folder, "cache");
  [first, second] = [new DataFolder(join(folder, "first")), new DataFolder(join(folder, "second"))];
});

describe("an unused guest", () => {
  test("is removed a day after its last use, by a server that uses another", async () => {
    const [old, current] = [made("a"), made("b")];
    open(old, first);
    const server = open(current, first);
    await server.collect(uses());
    expect(there()).toEqual(["a", "b"]);

    clock.jump(CACHE_KEPT_MS + 1);
    await server.collect(uses());
    expect(there()).toEqual(["b"]);
    expect(marks()).toEqual([`${named("b")}.${first.tag}`]);
  });

  test("is released from memory before its removal", async () => {
    const old = made("a");
    open(old, first);
    const server = open(made("b"), first);
    clock.jump(CACHE_KEPT_MS + 1);
    const unlocked: [string, number][] = [];
    await server.collect(
      uses({
        release: async (guest) => {
          unlocked.push([guest, readdirSync(guests()).filter((name) => name.startsWith(named("a"))).length]);
        },
      }),
    );
    expect(unlocked).toEqual([[old, 1]]);
    expect(there()).toEqual(["b"]);
  });

  test("is searched for once an hour", async () => {
    made("a");
    const server = open(made("b"), first);
    await server.collectNowAndThen(uses());
    for (const name of ["a", "b"]) age(name);
    await server.collectNowAndThen(uses());
    expect(there()).toEqual(["a", "b"]);
    clock.jump(CACHE_COLLECTED_EVERY_MS);
    await server.collectNowAndThen(uses());
    expect(there()).toEqual(["b"]);
  });

  test("is removed with files of killed removals and failed set-ups", async () => {
    const server = open(made("b"), first);
    for (const name of [`${named("a")}.${crypto.randomUUID()}.leaving`, `${named("c")}.unfinished`]) {
      mkdirSync(join(guests(), name, "bin"), { recursive: true });
    }
    await server.collect(uses());
    expect(readdirSync(guests()).sort()).toEqual([named("b"), `${named("c")}.unfinished`, "in-use", "lock"]);
    age("c", ".unfinished");
    await server.collect(uses());
    expect(readdirSync(guests()).sort()).toEqual([named("b"), "in-use", "lock"]);
  });
});

describe("a guest stays", () => {
  let server: GuestFolders;
  beforeEach(() => {
    open(made("a"), first);
    server = open(made("b"), first);
    for (const name of ["a", "b"]) age(name);
  });

  test("that a checkpoint or a running sandbox of the server names, and its mark with it", async () => {
    await server.collect(uses({ own: async () => [guestFolderNamed(cache, named("a"))] }));
    expect(there()).toEqual(["a", "b"]);
    dropGuestMarks(cache, first.tag);
    await server.collect(uses({ own: async () => [guestFolderNamed(cache, named("a"))] }));
    expect(marks()).toEqual(["a", "b"].map((name) => `${named(name)}.${first.tag}`));
  });

  test("that a running sandbox of another server names", async () => {
    await server.collect(uses({ others: () => [guestFolderNamed("/other/way/to/cache", named("a"))] }));
    expect(there()).toEqual(["a", "b"]);
  });

  test("that another server has marked, running or not", async () => {
    open(join(guests(), named("a")), second);
    age("a");
    clock.jump(2 * CACHE_MARK_KEPT_MS);
    await server.collect(uses());
    expect(there()).toEqual(["a", "b"]);
    expect(marks()).toContain(`${named("a")}.${second.tag}`);
  });

  test("that a server without a visible data folder has marked, for a while", async () => {
    open(join(guests(), named("a")), second);
    age("a");
    renameSync(second.path, `${second.path}-elsewhere`);
    clock.jump(CACHE_MARK_KEPT_MS);
    await server.collect(uses());
    expect(there()).toEqual(["a", "b"]);
    clock.jump(1);
    await server.collect(uses());
    expect(there()).toEqual(["b"]);
  });

  test("that is chosen during the search", async () => {
    const isThere: boolean[] = [];
    const own = async () => {
      isThere.push(chooseGuest(join(guests(), named("a")), clock));
      return [];
    };
    await server.collect(uses({ own }));
    expect(isThere).toEqual([true]);
    expect(there()).toEqual(["a", "b"]);
  });

  test("of a sandbox that is being restored while its checkpoint is removed", async () => {
    const restoring = server.hold(join(guests(), named("a")));
    const own = async () => {
      restoring[Symbol.dispose]();
      return [];
    };
    await server.collect(uses({ own }));
    expect(there()).toEqual(["a", "b"]);
    await server.collect(uses());
    expect(there()).toEqual(["b"]);
  });

  test("if the search fails", async () => {
    const own = () => Promise.reject(new Error("a manifest is damaged"));
    await expect(server.collect(uses({ own }))).rejects.toThrow("damaged");
    await server.collectNowAndThen(uses({ own }));
    expect(there()).toEqual(["a", "b"]);
  });

  test("that an earlier version made in another folder", async () => {
    mkdirSync(join(cache, "guest-0123456789abcdef"));
    utimesSync(join(cache, "guest-0123456789abcdef"), 0, 0);
    await server.collect(uses());
    expect(existsSync(join(cache, "guest-0123456789abcdef"))).toBe(true);
  });
});

test("a server does not start with a guest that was removed since it was chosen", () => {
  const guest = made("a");
  expect(chooseGuest(guest, clock)).toBe(true);
  rmSync(guest, { recursive: true });
  expect(chooseGuest(guest, clock)).toBe(false);
  expect(() => open(guest, first)).toThrow(`${guest} is gone. FIX: start the server again`);
});

test("the mark of a server that moved names its new place", async () => {
  const server = open(made("a"), first);
  expect(await marked("a", first)).toBe(first.path);
  renameSync(first.path, `${first.path}-moved`);
  const moved = new DataFolder(`${first.path}-moved`);
  open(server.current, moved);
  expect(await marked("a", first)).toBe(moved.path);
});

test("an incomplete mark counts as one of a server without a visible data folder", async () => {
  open(made("a"), second);
  writeFileSync(join(guests(), "in-use", `${named("a")}.${second.tag}`), "");
  const at = clock.now() / 1000;
  utimesSync(join(guests(), "in-use", `${named("a")}.${second.tag}`), at, at);
  age("a");
  await open(made("b"), first).collect(uses());
  expect(there()).toEqual(["a", "b"]);
});

test("a server that goes down leaves marks only for guests that its checkpoints need", () => {
  for (const guest of [made("a"), made("b")]) open(guest, first);
  dropGuestMarks(cache, first.tag, [made("b")]);
  expect(marks()).toEqual([`${named("b")}.${first.tag}`]);
});

test("a server whose data is removed leaves no mark", () => {
  const guest = made("a");
  for (const data of [first, second]) open(guest, data);
  dropGuestMarks(cache, first.tag);
  expect(marks()).toEqual([`${named("a")}.${second.tag}`]);
  dropGuestMarks(join(folder, "no-cache"), first.tag);
});

function open(guest: string, data: DataFolder): GuestFolders {
  return GuestFolders.open(cache, guest, data, clock);
}

/** By default no guest folder is in use. */
function uses(some: Partial<GuestUses> = {}): GuestUses {
  return { own: async () => [], others: () => [], release: () => Promise.resolve(), ...some };
}

function made(name: string): string {
  const path = guestFolderNamed(cache, named(name));
  mkdirSync(join(path, "bin"), { recursive: true });
  writeFileSync(join(path, "bin/guest"), "");
  expect(chooseGuest(path, clock)).toBe(true);
  return path;
}

/** As if it had been chosen long ago. */
function age(name: string, ending = ""): void {
  const at = (clock.now() - CACHE_KEPT_MS - 1) / 1000;
  utimesSync(join(guests(), named(name) + ending), at, at);
}

function named(name: string): string {
  return name.repeat(16);
}

function guests(): string {
  return join(cache, "guests");
}

function there(): string[] {
  return readdirSync(guests())
    .filter((name) => /^[0-9a-f]{16}/.test(name))
    .map((name) => (name.length === 16 ? name.slice(0, 1) : name))
    .sort();
}

function marks(): string[] {
  return readdirSync(join(guests(), "in-use")).sort();
}

async function marked(name: string, { tag }: DataFolder): Promise<string> {
  return await Bun.file(join(guests(), "in-use", `${named(name)}.${tag}`)).text();
}
