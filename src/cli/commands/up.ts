/** `sandlot up`: make sure that everything is there, then become the server, inside its own mount namespace. */
import { release } from "node:os";
import { join } from "node:path";
import { described, stderrLog } from "../../base/log.ts";
import { bundleStep } from "../../bundle/bundle.ts";
import { removeOrphanedServers } from "../../setup/orphaned-servers.ts";
import { cgroupTrees } from "../../system/cgroup/cgroups.ts";
import { ownEnv } from "../../system/command.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { keepInMemory } from "../../system/mount/memory-folder.ts";
import { MountNamespace } from "../../system/mount/mount-namespace.ts";
import { currentGuestFolder, prepare, requireRoot, runscSteps } from "../prepare.ts";
import { type Config, REQUESTS_TO_SANDBOXES_MAX } from "../settings/config.ts";
import { needsOf } from "./bundle.ts";
import { examineAndPrint, markExamined } from "./doctor.ts";

/** Bun has one thread per processor for files; with two, a pause that flushes would delay all others. */
const FILE_ACCESSES_AT_ONCE_MAX = 32;
/** How often the server returns unused memory to the kernel. */
const MEMORY_GIVEN_BACK_EVERY_MS = 5_000;

/** On tmpfs, so that the doctor runs again after a reboot: the kernel may be another. */
const EXAMINED_FOLDER = "/run/sandlot/examined";

/**
 * Bun sends every request through such a proxy, even those to sandboxes. The proxy would see the control secrets of
 * guests, tokens of tenants and registry credentials, and could respond in place of a sandbox.
 */
const PROXIES = /^(?:https?|all|no)_proxy$/i;

/** `bundle`: a file of `sandlot bundle`. */
export async function up(config: Config, bundle?: string): Promise<number> {
  requireRoot();
  await setUpMachine(config, bundle);
  const data = new DataFolder(config.dataFolder);
  data.lock();
  keepRunFolderInMemory(data);
  data.makeRunFolder();
  await removeOrphanedServers(data, (folder, error) => {
    const event = "leftovers of a removed server could not be cleaned up";
    stderrLog.write({ level: "warn", event, folder, error: described(error) });
  });
  const namespace = new MountNamespace(data);
  await namespace.make();
  const env = ownEnv();
  for (const name of Object.keys(env)) if (PROXIES.test(name)) delete env[name];
  // Bun limits a process to 256 concurrent outgoing requests by default; each open stream to a sandbox is one.
  env.BUN_CONFIG_MAX_HTTP_REQUESTS = String(REQUESTS_TO_SANDBOXES_MAX);
  env.UV_THREADPOOL_SIZE = String(FILE_ACCESSES_AT_ONCE_MAX);
  // By default every reading of a clock wakes a thread that returns memory, many times in each boot.
  env.MIMALLOC_PURGE_HOLES_MIN_INTERVAL = String(MEMORY_GIVEN_BACK_EVERY_MS);
  // By default the garbage collector runs after every small allocation, as of every boot, and not only when enough was
  // allocated.
  env.BUN_GC_TIMER_DISABLE = "1";
  return namespace.continueInside([join(import.meta.dir, "../main.ts"), "serve"], env);
}

/** What takes minutes on a new machine. Throws Fault 500 if it cannot run sandboxes. */
export async function setUpMachine(config: Config, bundle?: string): Promise<void> {
  const first = bundle === undefined ? undefined : bundleStep(bundle, needsOf(config));
  await prepare(config, config.runtime === "runsc" ? runscSteps(config) : [], first);
  await examineOnce(config);
}

/** Without tmpfs the server is slower, but works. */
function keepRunFolderInMemory({ runFolder }: DataFolder): void {
  try {
    keepInMemory(runFolder);
  } catch (error) {
    const event = "the run folder is on a disk, because tmpfs could not be mounted there";
    stderrLog.write({ level: "warn", event, folder: runFolder, error: described(error) });
  }
}

/** The doctor's result holds for one kernel with its cgroups, one guest with its tools, and one isolation runtime. */
async function examineOnce(config: Config): Promise<void> {
  const about = Bun.hash(
    JSON.stringify([release(), cgroupTrees(), currentGuestFolder(config), config.runtime, config.runsc]),
  ).toString(36);
  await markExamined(join(EXAMINED_FOLDER, about), () => {
    console.error("sandlot: testing this machine");
    return examineAndPrint(config, { onlyProblems: true });
  });
}
