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
import {
  READY_LOAD_MAX,
  READY_RUNNABLE_MAX,
  READY_SLOTS_PART,
  READY_SPARE_EACH_PROCESSOR,
  READY_SPARE_MAX,
} from "./limits.ts";
import { MemoryRoom, memoryLeft } from "./memory-room.ts";
import { ReadyPool } from "./ready-pool.ts";
import type { Room } from "./shares.ts";
import { ShelfReports } from "./shelf-report.ts";
import { noteCommand, noteGuest, putAside, takeUp } from "./standing-still.ts";

interface ShelfOptions {
  data: DataFolder;
  /** Of all together; none beyond what is kept in any case unless given. */
  readyMax?: number;
  /** Whether some are ready for a first burst. */
  readySpare?: boolean;
  network: Pick<Network, "freeSlots">;
  running: RunningSandboxes;
  starting: Starting;
  discard(id: string): Promise<void>;
  /** Of this machine's own making: nothing in it means harm. */
  ownImage?: string;
}

export function openShelf(options: ShelfOptions): ReadyPool {
  const { data, readyMax = 0, readySpare = false, network, running, starting, discard, ownImage } = options;
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
    async rehearse(id) {
      const sandbox = running.demand(id);
      noteCommand(sandbox, ownImage);
      await sandbox.guest.rehearse(sandbox.record.kind.defaultUser);
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
    spare: readySpare ? Math.min(READY_SPARE_MAX, READY_SPARE_EACH_PROCESSOR * processors) : 0,
    room,
    isBusy: () => load().ofMinute > READY_LOAD_MAX * processors,
    isBusyNow: () => load().now > READY_RUNNABLE_MAX * processors,
    processors,
    clock: systemClock,
    log: stderrLog,
    report: (now) => reports.note(now),
  });
}

/** Tasks that run or wait. From the file: the call for it counts much else, longer the more disks there are. */
function load(): { ofMinute: number; now: number } {
  const [ofMinute = "0", , , now = "0"] = readFileSync("/proc/loadavg", "utf8").split(" ");
  return { ofMinute: Number.parseFloat(ofMinute), now: Number.parseInt(now, 10) };
}
