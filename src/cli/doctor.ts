/** `sandlot doctor`: every prerequisite, tested by doing it, one line each. */
import { existsSync } from "node:fs";
import { examine } from "../host/doctor/doctor.ts";
import { findingLines } from "../host/doctor/finding.ts";
import { DataFolder } from "../host/system/data-folder.ts";
import type { Config } from "./config.ts";
import { withStore } from "./own-store.ts";
import { currentGuestFolder, demandRoot } from "./prepare.ts";

export async function doctor(config: Config): Promise<number> {
  demandRoot();
  return (await examineAndPrint(config, { onlyProblems: false })).has("broken") ? 1 : 0;
}

/** Answers which kinds of findings there were. */
export async function examineAndPrint(config: Config, options: { onlyProblems: boolean }) {
  const { dataFolder, cacheFolder, wall, runsc } = config;
  const { domain, certificate } = config.addresses;
  const guestFolder = currentGuestFolder(config);
  const privateNetworks = await privateNetworksOf(config);
  const about = { dataFolder, cacheFolder, guestFolder, wall, runsc, domain, certificate, privateNetworks };
  return await examine(about, (name, finding) => {
    if (options.onlyProblems && finding.status === "ok") return;
    for (const line of findingLines(name, finding)) console.log(line);
  });
}

/** By the setting, and by limits of teams, as far as a server has run here. */
async function privateNetworksOf(config: Config) {
  const usual = { whose: "SANDLOT_PRIVATE_RANGES", entries: config.privateRanges };
  if (!DataFolder.isAt(config.dataFolder) || !existsSync(new DataFolder(config.dataFolder).storeFile)) return [usual];
  const teams = await withStore(config, (store) => store.people.teams());
  return [
    usual,
    ...teams.flatMap(({ slug, limits }) =>
      limits.private === undefined ? [] : [{ whose: `team ${slug}, in place of the setting`, entries: limits.private }],
    ),
  ];
}
