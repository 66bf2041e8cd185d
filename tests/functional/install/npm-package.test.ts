/**
 * Sandlot on a Debian that has Node and npm only: from the npm package, from npx, and from a bundle without a network.
 * In long runs only: making such a machine takes minutes.
 */
import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { LONG } from "../../../src/base/testing/long.ts";
import { attempt, run } from "../../../src/system/command.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { readText } from "../../conventions/source-files.ts";
import { addressOf } from "../../support/banner-of-server.ts";
import { CACHE } from "../../support/cache.ts";
import { runWithSdk } from "../../support/programs/sdk-program.ts";
import { remainsOf } from "../../support/remains.ts";
import { newDataFolder } from "../../support/server.ts";
import { BUNDLE, PACKAGE, SANDLOT, StockMachine } from "../../support/stock-machine.ts";

const TEST_MS = 600_000;
const DOWN_MS = 120_000;
const INSTALLED = "/usr/local/lib/node_modules/sandlot";
/** In all, then of the packages of Bun, then of Bun for musl among them. */
const SIZES = `cd ${INSTALLED} && du --summarize --block-size=MB .
cd node_modules && du --summarize --total --block-size=MB @oven bun | tail -n 1
du --summarize --total --block-size=MB @oven/*-musl 2> /dev/null | tail -n 1`;

describe.skipIf(!LONG)("on a machine with Node and npm only,", () => {
  test(
    "the npm package starts, runs a sandbox, and leaves nothing behind",
    async () => {
      const { folder, data } = foldersFor("package");
      await using machine = await StockMachine.start({ folder, isInstalled: true, same: [folder, CACHE] });
      await machine.run(["sh", "-c", "! command -v git"]);
      await requireStatedSize(machine);
      const settings = { SANDLOT_DATA: data, SANDLOT_CACHE: CACHE };
      await useServer(machine, [SANDLOT], settings);
    },
    TEST_MS,
  );

  test(
    "npx starts the package",
    async () => {
      const { folder, data } = foldersFor("npx");
      await using machine = await StockMachine.start({ folder, isInstalled: true, same: [folder, CACHE] });
      const settings = { SANDLOT_DATA: data, SANDLOT_CACHE: CACHE };
      await useServer(machine, ["npx", "--offline", "--yes", `--package=${PACKAGE}`, "--", "sandlot"], settings);
    },
    TEST_MS,
  );

  test(
    "a bundle installs everything without a network",
    async () => {
      const { folder, data } = foldersFor("bundle");
      await using machine = await StockMachine.start({ folder, same: [folder] });
      const [, ...routes] = (await machine.run(["cat", "/proc/net/route"])).trim().split("\n");
      expect(routes).toEqual([]);
      const unpack = `tar -xOf ${BUNDLE} program/npm.tar.gz | tar -xzf - -C /usr/local`;
      await machine.run(["sh", "-c", unpack]);
      const settings = { SANDLOT_DATA: data, SANDLOT_CACHE: join(folder, "cache") };
      await useServer(machine, [SANDLOT], settings, ["--bundle", BUNDLE]);
    },
    TEST_MS,
  );
});

/** Both exist on the other machine with the same names. */
function foldersFor(name: string): { folder: string; data: string } {
  const folder = newDataFolder(name);
  mkdirSync(folder, { recursive: true });
  return { folder, data: join(folder, "data") };
}

/** docs/install.md states the size of the package with its npm packages, of Bun in it, and of Bun for musl. */
async function requireStatedSize(machine: StockMachine): Promise<void> {
  const text = readText("docs/install.md").replaceAll(/\s+/g, " ");
  const stated = [/takes at most (\d+) MB/, /at most (\d+) MB of that is Bun/, /for musl, at most (\d+) MB/];
  const [all = 0, bun = 0, musl = 0] = (await machine.run(["sh", "-c", SIZES]))
    .trim()
    .split("\n")
    .map(Number.parseFloat);
  for (const [index, size] of [all - musl, bun - musl, ...(musl === 0 ? [] : [musl])].entries()) {
    const most = Number(stated[index]?.exec(text)?.[1]);
    // A figure that is far too large says nothing, either.
    expect(size).toBeWithin(0.9 * most, most + 1);
  }
}

/** Starts a server, uses a sandbox, ends it with `sandlot down`, and looks for what is left of it. */
async function useServer(
  machine: StockMachine,
  sandlot: readonly string[],
  settings: { SANDLOT_DATA: string; SANDLOT_CACHE: string },
  options: readonly string[] = [],
): Promise<void> {
  const { SANDLOT_DATA: data } = settings;
  const argv = machine.enter([...sandlot, "up", ...options], settings);
  const server = Bun.spawn(argv, { stdio: ["ignore", "pipe", "pipe"] });
  const down = machine.enter([...sandlot, "down"], settings);
  try {
    const url = await addressOf(server);
    const key = readFileSync(join(data, "api-key"), "utf8").trim();
    const env = { E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: key };
    const seen = await runWithSdk(
      async ({ Sandbox }) => (await (await Sandbox.create()).commands.run("whoami; uname -s")).stdout,
      { enter: machine.enterNetwork, env },
    );
    expect(seen).toBe("user\nLinux\n");
  } catch (error) {
    await attempt(down, { timeoutMs: DOWN_MS });
    throw error;
  }
  const { tag } = new DataFolder(data);
  expect(remainsOf(tag)).not.toEqual([]);
  await run(down, { timeoutMs: DOWN_MS });
  expect(await server.exited).toBe(0);
  expect(remainsOf(tag)).toEqual([]);
  expect(await machine.run(["nft", "list", "tables"])).toBe("");
  expect(await machine.run(["ip", "-oneline", "link"])).not.toContain(tag);
  expect(await machine.run(["cat", "/proc/self/mountinfo"])).not.toContain(`/run/sandlot/${tag}`);
  expect(await run(["losetup", "--list", "--noheadings", "--output", "BACK-FILE"])).not.toContain(data);
}
