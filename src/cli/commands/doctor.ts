/** `sandlot doctor`: every prerequisite, tested by doing it, one line each. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { systemClock } from "../../base/clock.ts";
import { stderrLog } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";
import { SecretsKeys } from "../../control/secrets/secrets-keys.ts";
import { sharesMemory } from "../../control/templates/shared-memory.ts";
import { examine } from "../../setup/doctor/doctor.ts";
import { type Finding, findingLines } from "../../setup/doctor/finding.ts";
import type { Team } from "../../store/people.ts";
import { hasStore, type StoreSettings } from "../folder-store.ts";
import { currentGuestFolder, requireRoot } from "../prepare.ts";
import { SecretsKeyFile } from "../server/secrets-key-file.ts";
import type { Config } from "../settings/config.ts";
import { withStore } from "../with-store.ts";
import { postgresFinding } from "./postgres-finding.ts";

/** The store has an earlier version or another place, or Postgres is not available; `postgresFinding` says which. */
const UNREAD: readonly number[] = [409, 503];

export async function doctor(config: Config): Promise<number> {
  requireRoot();
  return (await examineAndPrint(config, { onlyProblems: false })).has("broken") ? 1 : 0;
}

export async function examineAndPrint(
  config: Config,
  options: { onlyProblems: boolean; print?: (line: string) => void },
) {
  const { print = console.log } = options;
  const { dataFolder, cacheFolder, runtime, runsc, memoryReserve } = config;
  const { domain, certificate } = config.addresses;
  const guestFolder = currentGuestFolder(config);
  const teams = await teamsOf(config, (why) => {
    if (!options.onlyProblems) print(`skipped  limits of teams: ${why}`);
  });
  const privateNetworks = privateNetworksOf(config, teams);
  const sharedMemory = sharedMemoryOf(config, teams);
  const machine = { dataFolder, cacheFolder, guestFolder, runtime, runsc, memoryReserve };
  const secretsProblem = await secretsProblemOf(config);
  const { postgres } = config;
  const store = postgres && (() => postgresFinding(config, postgres));
  const about = { ...machine, domain, certificate, privateNetworks, sharedMemory, secretsProblem, store };
  return await examine(about, (name, finding) => {
    if (options.onlyProblems && finding.status === "ok") return;
    for (const line of findingLines(name, finding)) print(line);
  });
}

/**
 * Examines this machine unless the file says that it was found fit before. A check that timed out prevents no start.
 */
export async function markExamined(
  mark: string,
  examineNow: () => Promise<ReadonlySet<Finding["status"]>>,
): Promise<void> {
  if (existsSync(mark)) return;
  const found = await examineNow();
  if (found.has("broken")) {
    throw new Fault(500, "this machine cannot run sandboxes yet; the lines above say what to do");
  }
  // What is not known yet is tested again at the next start.
  if (found.has("timeout")) return;
  mkdirSync(dirname(mark), { recursive: true });
  writeFileSync(mark, "");
}

/** Returns none for a store of an earlier version: a running server may still use it. */
export async function teamsOf(config: StoreSettings, onSkip: (why: string) => void): Promise<Team[]> {
  if (!hasStore(config)) return [];
  return await withStore(config, (store) => store.people.teams()).catch((error: unknown) => {
    if (!(error instanceof Fault) || !UNREAD.includes(error.status)) throw error;
    onSkip(error.message);
    return [];
  });
}

/** Undefined also for a store of an earlier version, which has no secrets. */
async function secretsProblemOf(config: Config): Promise<string | undefined> {
  if (!hasStore(config)) return undefined;
  const problem = withStore(config, (store) =>
    new SecretsKeys({ store, clock: systemClock, log: stderrLog }, new SecretsKeyFile(config)).problem(),
  );
  return await problem.catch((error: unknown) => {
    if (!(error instanceof Fault) || !UNREAD.includes(error.status)) throw error;
    return undefined;
  });
}

/** Private networks of the setting, and of limits of teams. */
function privateNetworksOf({ privateRanges }: Config, teams: readonly Team[]) {
  return [
    { whose: "SANDLOT_PRIVATE_RANGES", entries: privateRanges },
    ...teams.flatMap(({ slug, limits }) =>
      limits.private === undefined ? [] : [{ whose: `team ${slug}, in place of the setting`, entries: limits.private }],
    ),
  ];
}

function sharedMemoryOf({ sharedMemory }: Config, teams: readonly Team[]): string | undefined {
  const named = teams.filter((team) => sharesMemory(team, sharedMemory)).map(({ slug }) => slug);
  const all = sharedMemory === "all" ? ["all teams"] : sharedMemory === "off" ? [] : sharedMemory;
  return [...new Set([...all, ...(sharedMemory === "all" ? [] : named)])].join(", ") || undefined;
}
