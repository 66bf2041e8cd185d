/** `sandlot up`: make sure that everything is there, then become the server, inside its own mount namespace. */
import { release } from "node:os";
import { join } from "node:path";
import { described, stderrLog } from "../base/log.ts";
import { Fault } from "../contract/fault.ts";
import { removeGoneServers } from "../setup/gone-servers.ts";
import { cgroupTrees } from "../system/cgroup/cgroups.ts";
import { DataFolder } from "../system/data-folder.ts";
import { keepInMemory } from "../system/mount/memory-folder.ts";
import { MountNamespace } from "../system/mount/mount-namespace.ts";
import { replaceProcess } from "../system/syscalls.ts";
import type { Config } from "./config.ts";
import { examineAndPrint, markExamined } from "./doctor.ts";
import { REQUESTS_TO_SANDBOXES_MAX } from "./limits.ts";
import { currentGuestFolder, demandRoot, prepare, runscSteps } from "./prepare.ts";

/**
 * Accesses to files that the server has under way at once. Bun has as many threads for them as there are processors; on
 * two, a pause that makes its files durable would hold up whatever else looks at a file.
 */
const FILE_ACCESSES_AT_ONCE_MAX = 32;
/** How often the server gives memory back that lies between what it uses. */
const MEMORY_GIVEN_BACK_EVERY_MS = 5_000;

/** In memory, so that the doctor looks again after a reboot: the kernel may be another. */
const EXAMINED_FOLDER = "/run/sandlot/examined";

/**
 * Bun sends every request through such a proxy, those to sandboxes as well: it would be handed the control secrets of
 * guests, tokens of tenants and credentials for registries, and could answer in a sandbox's place.
 */
const PROXIES = /^(?:https?|all|no)_proxy$/i;

export async function up(config: Config): Promise<number> {
  demandRoot();
  await prepare(config, config.wall === "runsc" ? runscSteps(config) : []);
  await examineOnce(config);
  const data = new DataFolder(config.dataFolder);
  data.lock();
  keepRunFolderInMemory(data);
  data.makeRunFolder();
  await removeGoneServers(data, (folder, error) => {
    const event = "what a server has left could not be removed";
    stderrLog.write({ level: "warn", event, folder, error: described(error) });
  });
  const namespace = new MountNamespace(data);
  await namespace.make();
  const program = join(import.meta.dir, "main.ts");
  const nsenter = Bun.which("nsenter");
  if (nsenter === null) throw new Fault(500, "nsenter is missing. FIX: apt-get install util-linux");
  const [, ...enter] = namespace.enterCommand;
  const env = Object.fromEntries(
    Object.entries(process.env).flatMap(([k, v]) => (v === undefined || PROXIES.test(k) ? [] : [[k, v]])),
  );
  // Bun lets a process have 256 requests of its own under way by default; each open stream to a sandbox is one.
  env.BUN_CONFIG_MAX_HTTP_REQUESTS = String(REQUESTS_TO_SANDBOXES_MAX);
  env.UV_THREADPOOL_SIZE = String(FILE_ACCESSES_AT_ONCE_MAX);
  // Else every look at a clock wakes a thread that gives memory back, many times in each boot.
  env.MIMALLOC_PURGE_HOLES_MIN_INTERVAL = String(MEMORY_GIVEN_BACK_EVERY_MS);
  // Else its collector works whenever a little was taken, as by every boot, and not only when enough was.
  env.BUN_GC_TIMER_DISABLE = "1";
  replaceProcess([nsenter, ...enter, process.execPath, program, "serve"], env);
}

/** Without it, it is slower. */
function keepRunFolderInMemory({ runFolder }: DataFolder): void {
  try {
    keepInMemory(runFolder);
  } catch (error) {
    const event = "the run folder lies on a disk, because nothing could be mounted there";
    stderrLog.write({ level: "warn", event, folder: runFolder, error: described(error) });
  }
}

/** The doctor's word holds for one kernel with its cgroups, one guest with its tools, and one wall. */
async function examineOnce(config: Config): Promise<void> {
  const about = Bun.hash(
    JSON.stringify([release(), cgroupTrees(), currentGuestFolder(config), config.wall, config.runsc]),
  ).toString(36);
  await markExamined(join(EXAMINED_FOLDER, about), () => {
    console.error("sandlot: testing this machine");
    return examineAndPrint(config, { onlyProblems: true });
  });
}
