/** The server that runs on a data folder. */
import type { DataFolder } from "../system/data-folder.ts";
import { runningServerIn, serverFileIn } from "../system/server-process.ts";

export function serverFile(data: DataFolder): string {
  return serverFileIn(data.runFolder);
}

/** The pid of the server on this data folder, if one runs. */
export function runningServer(data: DataFolder): number | undefined {
  return runningServerIn(data.runFolder);
}
