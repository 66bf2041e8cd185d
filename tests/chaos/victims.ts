/** The processes that a scenario kills: only those of its own server. */
import { readdirSync, readFileSync } from "node:fs";
import { isWaitingCriu } from "../support/waiting-criu.ts";
import type { Stage } from "./stage.ts";

export type Victim = "server" | "crun" | "criu" | "guest" | "runsc";

/** Kills the processes of this kind. False: there is none at this moment. */
export async function killProcesses(stage: Stage, victim: Victim): Promise<boolean> {
  if (victim === "server") {
    await stage.restart();
    return true;
  }
  const pids = find(stage, victim);
  for (const pid of pids) kill(pid);
  return pids.length > 0;
}

function find(stage: Stage, victim: Exclude<Victim, "server">): number[] {
  switch (victim) {
    case "crun":
    case "runsc":
      return childrenOf(stage.server.pid).filter((pid) =>
        commandOf(pid).includes(`--root /run/sandlot/${stage.tag}/${victim}`),
      );
    case "criu":
      // CRIU itself, not its children: a kill by name or for memory leaves those alive.
      return (
        stage
          .cgroups()
          .filter((name) => name.endsWith(".dump") || name.endsWith(".restore"))
          .flatMap((name) => stage.processesIn(name).filter((pid) => name.endsWith(".restore") || !isWaitingCriu(pid)))
          // CRIU is called "criu: dump …" once it has its request. A restoring CRIU is the child of a service.
          .filter((pid) => isOfServer(stage, parentOf(pid)) && /\bcriu\b/.test(commandOf(pid)))
      );
    case "guest":
      return stage
        .cgroups()
        .flatMap((name) => stage.processesIn(name))
        .filter((pid) => commandOf(pid).startsWith("/.sandlot/bin/guest"));
  }
}

function isOfServer({ server }: Stage, pid: number): boolean {
  return pid === server.pid || parentOf(pid) === server.pid;
}

/** True while a process of this kind works. */
export function isAtWork(stage: Stage, victim: Exclude<Victim, "server">): boolean {
  return find(stage, victim).length > 0;
}

function childrenOf(pid: number): number[] {
  return threadsOf(pid).flatMap((thread) => {
    return read(`/proc/${pid}/task/${thread}/children`).split(" ").filter(Boolean).map(Number);
  });
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

function parentOf(pid: number): number {
  const stat = read(`/proc/${pid}/stat`);
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

function commandOf(pid: number): string {
  return read(`/proc/${pid}/cmdline`).replaceAll("\0", " ");
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself.
  }
}
