/** `sandlot down`: stops the server, ends its sandboxes, undoes the changes of start-up. Data and cache stay. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../../base/system-code.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { removeStaleTrials } from "../../setup/doctor/checkpoint-trial.ts";
import { teardown } from "../../setup/teardown.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { notedServerIn } from "../../system/server-process.ts";
import { requireRoot } from "../prepare.ts";
import { runningServer } from "../server-file.ts";
import type { Config } from "../settings/config.ts";

const STOP_MS = scaled(30_000);
const POLL_MS = 50;

export async function down(config: Config): Promise<number> {
  requireRoot();
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

async function stopServer(data: DataFolder): Promise<void> {
  const { pid } = notedServerIn(data.runFolder);
  if (pid === 0) return;
  if (runningServer(data) !== undefined) sendSigterm(pid);
  // After the first thread is gone, another may still wait for the disk, and holds the folder until it is done.
  const isThere = () => runningServer(data) === pid || data.inUse;
  for (const deadline = performance.now() + STOP_MS; isThere(); await Bun.sleep(POLL_MS)) {
    if (performance.now() > deadline) throw new Fault(500, `the server (pid ${pid}) did not stop within ${STOP_MS} ms`);
  }
}

function sendSigterm(pid: number): void {
  try {
    process.kill(pid, "SIGTERM");
  } catch (error) {
    // It was already stopping.
    if (systemCode(error) !== "ESRCH") throw error;
  }
}
