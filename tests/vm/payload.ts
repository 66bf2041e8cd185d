/** Sandlot as `npm install -g` leaves it, and the parts of its cache that a first start would fetch, as one archive. */
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { FETCH_IMAGE } from "../../src/builder/registry/fetch-tools.ts";
import { currentGuestFolder, prepare } from "../../src/cli/prepare.ts";
import type { Config } from "../../src/cli/settings/config.ts";
import { BASE_IMAGE } from "../../src/setup/base-image.ts";
import { run } from "../../src/system/command.ts";
import { Toolbox } from "../../src/system/toolbox.ts";
import { npm } from "../support/npm.ts";

const PROJECT = join(import.meta.dir, "../..");
const TOOL_MS = 1_200_000;

export async function makePayload(config: Config, target: string): Promise<void> {
  await prepare(config);
  const { cacheFolder } = config;
  const images = [BASE_IMAGE, FETCH_IMAGE].flatMap((name) => [`images/${name}`, `images/${name}.chosen`]);
  const guest = relative(cacheFolder, currentGuestFolder(config));
  const cached = [basename(new Toolbox(cacheFolder).toolFolder), guest, ...images];
  const folder = await mkdtemp(join(tmpdir(), "sandlot-vm-"));
  try {
    await npm(["pack", "--silent", "--pack-destination", folder], PROJECT);
    const [archive = ""] = await readdir(folder);
    await mkdir(join(folder, "usr/local"), { recursive: true });
    const options = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
    const prefix = ["--prefix", join(folder, "usr/local")];
    await npm(["install", "--global", ...options, ...prefix, join(folder, archive)], folder);
    const from = ["--transform", `s,^${cacheFolder.slice(1)}/,var/cache/sandlot/,S`];
    const unfinished = `${target}.unfinished`;
    await rm(unfinished, { force: true });
    await mkdir(dirname(target), { recursive: true });
    const archiveOf = ["tar", "-c", "-f", unfinished, "--numeric-owner"];
    const paths = cached.map((name) => join(cacheFolder, name).slice(1));
    await run([...archiveOf, ...from, "-C", folder, "usr", "-C", "/", ...paths], { timeoutMs: TOOL_MS });
    await rename(unfinished, target);
  } finally {
    await rm(folder, { recursive: true });
  }
}
