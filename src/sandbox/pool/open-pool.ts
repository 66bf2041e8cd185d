/** Connects the ready pool to this machine: its memory, network slots, load and sandboxes. */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { systemClock } from "../../base/clock.ts";
import { stderrLog } from "../../base/log.ts";
import { freeze, isFrozen, thaw } from "../../system/cgroup/freezer.ts";
import { memoryInUse } from "../../system/cgroup/memory-in-use.ts";
import { memoryLeft } from "../../system/cgroup/memory-left.ts";
import type { DataFolder } from "../../system/data-folder.ts";
import type { Network } from "../network/network.ts";
import type { RunningSandboxes } from "../running-sandboxes.ts";
import type { Starting } from "../starting.ts";
import { MemoryRoom } from "./memory-room.ts";
import { PoolReports } from "./pool-report.ts";
import { ReadyPool } from "./ready-pool.ts";
import type { Room } from "./shares.ts";

/** The machine is busy when more tasks per processor are runnable at this moment. */
const READY_RUNNABLE_MAX = 2;
/** The part of the free network slots that the pool may take. */
const READY_SLOTS_PART = 0.125;

interface PoolOptions {
  data: DataFolder;
  /** Maximum size of the pool. By default it holds only what the operator keeps ready. */
  readyMax?: number;
  network: Pick<Network, "freeSlots">;
  running: RunningSandboxes;
  starting: Starting;
  discard(id: string): Promise<void>;
  /** The image that this machine made itself. */
  ownImage?: string;
}

export function openReadyPool(options: PoolOptions): ReadyPool {
  const { data, readyMax = 0, network, running, starting, discard, ownImage } = options;
  const memory = new MemoryRoom(() => memoryLeft(data.cgroup), systemClock);
  const reports = new PoolReports(data, systemClock, stderrLog);
  const processors = availableParallelism();
  const room = (ready: number, heldBytes: number): Room => {
    const places = Math.min(readyMax, Math.floor((network.freeSlots + ready) * READY_SLOTS_PART));
    return { places, bytes: places === 0 ? 0 : memory.bytes(heldBytes) };
  };
  return new ReadyPool({
    startAhead: ({ kind, checkpoint }) => starting.startAhead(kind, checkpoint),
    async stop(id) {
      const { record, guest, ahead } = running.require(id);
      const { image, defaultUser } = record.kind;
      // A booted sandbox runs only its guest, which is idle: the kernel needs a millisecond of a create to thaw it.
      if (!ahead?.showsProcesses) return await freeze(record.cgroup);
      // Programs of any other image could leave processes behind.
      if (image === ownImage) await guest.warmUp(defaultUser).catch(() => undefined);
    },
    thaw(id) {
      if (!running.isAlive(id)) return false;
      try {
        const { cgroup } = running.require(id).record;
        if (isFrozen(cgroup)) thaw(cgroup);
        return true;
      } catch {
        // The sandbox ended at this moment, and its cgroup with it.
        return false;
      }
    },
    discard,
    bytesOf: (id) => memoryInUse(running.require(id).record.cgroup),
    followsDemand: readyMax > 0,
    room,
    isBusyNow: () => runnable() > READY_RUNNABLE_MAX * processors,
    processors,
    clock: systemClock,
    log: stderrLog,
    report: (now) => reports.note(now),
  });
}

function runnable(): number {
  return Number.parseInt(readFileSync("/proc/loadavg", "utf8").split(" ")[3] ?? "0", 10);
}
