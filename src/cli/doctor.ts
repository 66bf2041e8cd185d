/** `sandlot doctor`: every prerequisite, tested by doing it, one line each. */
import { examine } from "../host/doctor/doctor.ts";
import { findingLines } from "../host/doctor/finding.ts";
import type { Config } from "./config.ts";
import { currentGuestFolder, demandRoot } from "./prepare.ts";

export async function doctor(config: Config): Promise<number> {
  demandRoot();
  return (await examineAndPrint(config, { onlyProblems: false })).has("broken") ? 1 : 0;
}

/** Answers which kinds of findings there were. */
export async function examineAndPrint(config: Config, options: { onlyProblems: boolean }) {
  const { dataFolder, cacheFolder, wall, runsc } = config;
  const { domain, certificate } = config.addresses;
  const about = { dataFolder, cacheFolder, guestFolder: currentGuestFolder(config), wall, runsc, domain, certificate };
  return await examine(about, (name, finding) => {
    if (options.onlyProblems && finding.status === "ok") return;
    for (const line of findingLines(name, finding)) console.log(line);
  });
}
