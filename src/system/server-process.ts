/** The process of a server: its pid is recorded with its start time, so that no other process is mistaken for it. */
import { join } from "node:path";
import { readText } from "./data-folder.ts";
import { startTicks } from "./start-ticks.ts";

export function serverFileIn(runFolder: string): string {
  return join(runFolder, "server.pid");
}

/** Pid 0: none was recorded. */
export function notedServerIn(runFolder: string): { pid: number; ticks: string } {
  const [pid = "0", ticks = ""] = (readText(serverFileIn(runFolder)) ?? "0").split(" ");
  return { pid: Number(pid), ticks };
}

/** Its pid, if it runs. */
export function runningServerIn(runFolder: string): number | undefined {
  const { pid, ticks } = notedServerIn(runFolder);
  return pid > 1 && startTicks(pid) === ticks ? pid : undefined;
}
