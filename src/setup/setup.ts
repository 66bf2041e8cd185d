/**
 * Makes everything that a fresh host needs before the first start, once; later starts find it in the cache folder. This
 * folder never starts sandboxes for clients and never serves requests.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { requireEnterable } from "../system/enterable-cache.ts";
import { type FileLock, takeLock } from "../system/syscalls.ts";
import { Toolbox } from "../system/toolbox.ts";
import { baseImageStep } from "./base-image.ts";
import { fetchImageStep } from "./fetch-image.ts";
import { guestFolderStep } from "./guest-folder.ts";
import { packagesStep } from "./packages.ts";
import type { SetupStep } from "./step.ts";
import { toolFolderStep } from "./tool-folder.ts";

interface SetupOptions {
  cacheFolder: string;
  debianMirror: string | undefined;
  /** A step before all others, which may leave them nothing to do. */
  first?: SetupStep | undefined;
  /** Steps after those that a server needs. */
  further?: readonly SetupStep[];
  /** Called when a step begins, with each line it prints, and when it is done. */
  report: Report;
}

type Report = (event: { kind: "begin" | "line" | "end" | "wait"; text: string }) => void;

const LOCK_RETRY_MS = 500;

/** Returns whether any step had to run. Fault 409 for a cache folder that sandboxes cannot enter. */
export async function setUp(options: SetupOptions): Promise<boolean> {
  requireEnterable(options.cacheFolder);
  const toolbox = new Toolbox(options.cacheFolder);
  const { first } = options;
  const steps: (() => SetupStep)[] = [
    ...(first === undefined ? [] : [() => first]),
    () => packagesStep,
    () => toolFolderStep(toolbox, options.debianMirror),
    () => guestFolderStep(toolbox),
    () => baseImageStep(options.cacheFolder, options.debianMirror),
    () => fetchImageStep(options.cacheFolder, options.debianMirror),
    ...(options.further ?? []).map((step) => () => step),
  ];
  return await makeSteps(options.cacheFolder, steps, options.report);
}

/** Runs the steps that are not done, in order. Returns whether there were any. */
export async function makeSteps(
  cacheFolder: string,
  steps: readonly (() => SetupStep)[],
  report: Report,
): Promise<boolean> {
  if (steps.every((step) => step().done())) return false;
  mkdirSync(cacheFolder, { recursive: true, mode: 0o755 });
  using _lock = await holdCache(cacheFolder, report);
  for (const make of steps) {
    const step = make();
    if (step.done()) continue;
    report({ kind: "begin", text: step.title });
    await step.make((text) => report({ kind: "line", text }));
    report({ kind: "end", text: step.title });
  }
  return true;
}

/** Concurrent setups on one cache would undo each other's work; the second waits and then finds everything done. */
async function holdCache(cacheFolder: string, report: Report): Promise<FileLock> {
  const path = join(cacheFolder, "lock");
  for (let waited = false; ; waited = true) {
    const lock = takeLock(path);
    if (lock !== undefined) return lock;
    if (!waited) report({ kind: "wait", text: "another set-up is using the cache folder; waiting for it" });
    await Bun.sleep(LOCK_RETRY_MS);
  }
}
