/**
 * `sandlot down`: stop the server if it runs, end its sandboxes, undo what start-up changed. Data and cache are kept.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import { removeStaleTrials } from "../host/doctor/checkpoint-trial.ts";
import { teardown } from "../host/setup/teardown.ts";
import { DataFolder } from "../host/system/data-folder.ts";
import { startTicks } from "../host/system/start-ticks.ts";
import type { Config } from "./config.ts";
import { demandRoot } from "./prepare.ts";

const STOP_MS = 30_000;
const POLL_MS = 50;

export async function down(config: Config): Promise<number> {
  demandRoot();
  if (!existsSync(join(config.dataFolder, "server.json"))) {
    console.log(`sandlot: there is no data folder at ${config.dataFolder}; nothing to do`);
    return 0;
  }
  const data = new DataFolder(config.dataFolder);
  await stopServer(data);
  await removeStaleTrials(config.dataFolder, config.cacheFolder);
  await teardown(data, config.cacheFolder, { keepData: true });
  console.log(`sandlot: all sandboxes of ${config.dataFolder} are ended and this machine is as it was; data is kept`);
  return 0;
}

/** The server notes its pid and when that process began, so that no other process is ever taken for it. */
export function serverFile(data: DataFolder): string {
  return join(data.runFolder, "server.pid");
}

/** The pid of the server on this data folder, if one runs. */
export function runningServer(data: DataFolder): number | undefined {
  const { pid, ticks } = notedServer(data);
  return pid > 1 && startTicks(pid) === ticks ? pid : undefined;
}

function notedServer(data: DataFolder): { pid: number; ticks: string } {
  const file = serverFile(data);
  const [pid = "0", ticks = ""] = existsSync(file) ? readFileSync(file, "utf8").split(" ") : [];
  return { pid: Number(pid), ticks };
}

async function stopServer(data: DataFolder): Promise<void> {
  const { pid } = notedServer(data);
  if (pid === 0) return;
  if (runningServer(data) !== undefined) process.kill(pid, "SIGTERM");
  // When its first thread is gone another may still wait for the disk, and holds the folder until it is done.
  const isThere = () => runningServer(data) === pid || data.inUse;
  for (const deadline = performance.now() + STOP_MS; isThere(); await Bun.sleep(POLL_MS)) {
    if (performance.now() > deadline) throw new Fault(500, `the server (pid ${pid}) did not stop within ${STOP_MS} ms`);
  }
}
