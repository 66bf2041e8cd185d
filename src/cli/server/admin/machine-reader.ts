/** Reads the figures of this machine for `GET /nodes`. */
import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { version } from "../../../base/version.ts";
import type { MachineReadings } from "../../../contract/management/admin.ts";
import { readings, type ServerParts } from "./readings.ts";

interface Times {
  busy: number;
  all: number;
}

export class MachineReader {
  /** Processor times at the previous reading; zero at first, so the first result covers the time since boot. */
  #previous: Times = { busy: 0, all: 0 };

  constructor(private readonly server: ServerParts) {}

  async read(): Promise<MachineReadings> {
    const { memory, disk, dataDisk } = await readings(this.server);
    const processors = cpus();
    const { path } = this.server.data;
    return {
      version: version(),
      metrics: {
        cpuPercent: this.#busyPercent(processors),
        cpuCount: processors.length,
        memoryUsedBytes: memory.totalBytes - memory.availableBytes,
        memoryTotalBytes: memory.totalBytes,
        disks: [asDisk(path, dataDisk), asDisk(`${path}/disks`, disk)],
      },
      machineInfo: {
        cpuFamily: fromCpuInfo("cpu family"),
        cpuModel: fromCpuInfo("model"),
        cpuModelName: processors[0]?.model ?? "",
        cpuArchitecture: process.arch === "x64" ? "x86_64" : process.arch,
      },
    };
  }

  /** Processor use since the previous reading. */
  #busyPercent(processors: ReturnType<typeof cpus>): number {
    const now: Times = { busy: 0, all: 0 };
    for (const { times } of processors) {
      const all = times.user + times.nice + times.sys + times.idle + times.irq;
      now.all += all;
      now.busy += all - times.idle;
    }
    const [busy, all] = [now.busy - this.#previous.busy, now.all - this.#previous.all];
    if (all > 0) this.#previous = now;
    return all > 0 ? Math.round((busy / all) * 100) : 0;
  }
}

function asDisk(mountPoint: string, { totalBytes, freeBytes }: { totalBytes: number; freeBytes: number }) {
  return { mountPoint, device: "", filesystemType: "", usedBytes: totalBytes - freeBytes, totalBytes };
}

/** Empty on machines that do not say it, such as arm64. */
function fromCpuInfo(name: string): string {
  return new RegExp(`^${name}\\s*: (.*)$`, "m").exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1] ?? "";
}
