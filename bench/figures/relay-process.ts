/** Finds the process of the server's connection relay: a child of the server. */
import { readdirSync, readFileSync } from "node:fs";
import { Fault } from "../../src/contract/fault.ts";

const PROGRAM = "relay.js";

export function relayPid(serverPid: number): number {
  const children = readdirSync(`/proc/${serverPid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${serverPid}/task/${thread}/children`, "utf8").trim().split(" "),
  );
  const pid = children.find((child) => child !== "" && programOf(child).endsWith(PROGRAM));
  if (pid === undefined) throw new Fault(500, `the server, process ${serverPid}, has no child that runs ${PROGRAM}`);
  return Number(pid);
}

/** The last argument. A child that has just ended has none. */
function programOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").at(-2) ?? "";
  } catch {
    return "";
  }
}
