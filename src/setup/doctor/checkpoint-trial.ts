/**
 * Checkpoints and restores a real sandbox, created like any other, on a throw-away server with its own data folder,
 * mount namespace and tag. Everything is removed afterwards, whatever the result.
 */
import { mkdirSync, mkdtempSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import type { RuntimeName } from "../../contract/runtime-name.ts";
import { attempt } from "../../system/command.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { MountNamespace } from "../../system/mount/mount-namespace.ts";
import { teardown } from "../teardown.ts";
import type { DoctorOptions } from "./finding.ts";

const TRIAL_MS = scaled(120_000);
export const TIMEOUT_EXIT_CODE = 75;
const TRIAL_PREFIX = ".trial-";
const PROGRAM = join(import.meta.dir, "checkpoint-trial-program.ts");

export interface TrialResult {
  checkpointMs: number;
  restoreMs: number;
}

export async function tryCheckpoint(options: DoctorOptions, runtime: RuntimeName): Promise<TrialResult> {
  mkdirSync(options.dataFolder, { recursive: true, mode: 0o700 });
  await removeStaleTrials(options.dataFolder, options.cacheFolder);
  const data = new DataFolder(mkdtempSync(join(options.dataFolder, TRIAL_PREFIX)));
  data.makeRunFolder();
  const namespace = new MountNamespace(data);
  try {
    await namespace.make();
    const command = [
      ...namespace.enterCommand,
      process.execPath,
      PROGRAM,
      data.path,
      options.cacheFolder,
      options.guestFolder,
      runtime,
      options.runsc ?? "",
    ];
    const result = await attempt(command, { timeoutMs: TRIAL_MS });
    const output = result.stderr.trim() || "the trial said nothing";
    if (result.exitCode === TIMEOUT_EXIT_CODE) throw new Fault(503, output);
    if (result.exitCode !== 0) throw new Fault(500, output);
    return JSON.parse(result.stdout) as TrialResult;
  } finally {
    await teardown(data, options.cacheFolder, { keepData: false });
  }
}

/** Removes trials that were killed halfway. A running trial holds its lock and is kept. */
export async function removeStaleTrials(dataFolder: string, cacheFolder: string): Promise<void> {
  for (const name of readdirSync(dataFolder)) {
    if (!name.startsWith(TRIAL_PREFIX)) continue;
    const data = new DataFolder(join(dataFolder, name));
    if (!data.inUse) await teardown(data, cacheFolder, { keepData: false });
  }
}
