/** The shelf of ready sandboxes on this machine. */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { systemClock } from "../../work/clock.ts";
import { described, stderrLog } from "../../work/log.ts";
import { memoryInUse } from "../cgroup/memory-in-use.ts";
import type { Network } from "../network/network.ts";
import type { RunningSandboxes } from "../sandbox/running-sandboxes.ts";
import type { Starting } from "../sandbox/starting.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { READY_RUNNABLE_MAX, READY_SLOTS_PART } from "./limits.ts";
import { MemoryRoom, memoryLeft } from "./memory-room.ts";
import { ReadyPool } from "./ready-pool.ts";
import type { Room } from "./shares.ts";
import { ShelfReports } from "./shelf-report.ts";
import { noteGuest, putAside, takeUp } from "./standing-still.ts";

interface ShelfOptions {
  data: DataFolder;
  /** Of all together; none beyond what is kept in any case unless given. */
  readyMax?: number;
  network: Pick<Network, "freeSlots">;
  running: RunningSandboxes;
  starting: Starting;
  discard(id: string): Promise<void>;
}

export function openShelf(options: ShelfOptions): ReadyPool {
  const { data, readyMax = 0, network, running, starting, discard } = options;
  const memory = new MemoryRoom(() => memoryLeft(data.cgroup), systemClock);
  const failed = (error: unknown) => {
    const event = "the report of ready sandboxes is not written";
    stderrLog.write({ level: "warn", event, error: described(error) });
  };
  const reports = new ShelfReports({ data, clock: systemClock, failed });
  const processors = availableParallelism();
  const room = (ready: number, heldBytes: number): Room => {
    const places = Math.min(readyMax, Math.floor((network.freeSlots + ready) * READY_SLOTS_PART));
    return { places, bytes: places === 0 ? 0 : memory.bytes(heldBytes) };
  };
  return new ReadyPool({
    async startAhead({ kind, checkpoint }) {
      const id = await starting.startAhead(kind, checkpoint);
      const sandbox = running.get(id);
      if (sandbox !== undefined) await noteGuest(sandbox);
      return id;
    },
    stop: (id) => putAside(running.demand(id)),
    letGo(id) {
      if (!running.isAlive(id)) return false;
      try {
        takeUp(running.demand(id));
        return true;
      } catch {
        // It ended in this moment, and its cgroup with it.
        return false;
      }
    },
    discard,
    bytesOf: (id) => memoryInUse(running.demand(id).record.cgroup),
    followsDemand: readyMax > 0,
    room,
    isBusyNow: () => runnable() > READY_RUNNABLE_MAX * processors,
    processors,
    clock: systemClock,
    log: stderrLog,
    report: (now) => reports.note(now),
  });
}

/** Tasks that run or wait. From the file: the call for it counts much else, longer the more disks there are. */
function runnable(): number {
  return Number.parseInt(readFileSync("/proc/loadavg", "utf8").split(" ")[3] ?? "0", 10);
}
