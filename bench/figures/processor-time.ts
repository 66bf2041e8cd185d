/** Processor time in milliseconds: of a process with its descendants, and of a cgroup. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../src/contract/fault.ts";
import { CGROUP_ROOT } from "../../src/system/cgroup/cgroups.ts";
import { processMs } from "../../src/system/thread-times.ts";

/** The clock tick of /proc/PID/stat on every current Linux. Ended processes have no finer clock. */
const MS_OF_TICK = 10;
const NS_OF_MS = 1_000_000;
const US_OF_MS = 1000;
/** Fields of /proc/PID/stat behind the name, counted from the state. */
const PARENT = 1;
const WAITED_FOR = 13;

export interface ProcessorTime {
  /** Of the process itself and of its living descendants. */
  own: number;
  /** Of its descendants that have ended. */
  ended: number;
}

/** Measures a process and its descendants. Processes in a sandbox are not among them. */
export function processorTimeOf(pid: number): ProcessorTime {
  const all = allProcesses();
  const sum: ProcessorTime = { own: 0, ended: 0 };
  const line = [pid];
  for (let next = line.shift(); next !== undefined; next = line.shift()) {
    const found = all.get(next);
    if (found === undefined) continue;
    sum.own += found.own;
    sum.ended += found.ended;
    line.push(...[...all].flatMap(([child, { parent }]) => (parent === next ? [child] : [])));
  }
  return sum;
}

/** Of all processes that ever ran in the cgroup. */
export function processorTimeIn(cgroup: string): number {
  const v1 = join(CGROUP_ROOT, "cpuacct", cgroup, "cpuacct.usage");
  if (existsSync(v1)) return Number(readFileSync(v1, "utf8")) / NS_OF_MS;
  const v2 = join(CGROUP_ROOT, cgroup, "cpu.stat");
  const microseconds = existsSync(v2) ? /^usage_usec (\d+)$/m.exec(readFileSync(v2, "utf8"))?.[1] : undefined;
  if (microseconds === undefined) throw new Fault(500, `no file tells the processor time of the cgroup ${cgroup}`);
  return Number(microseconds) / US_OF_MS;
}

function allProcesses(): Map<number, ProcessorTime & { parent: number }> {
  const found = new Map<number, ProcessorTime & { parent: number }>();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const fields = statOf(pid);
    const ticks = (at: number) => (Number(fields[at]) + Number(fields[at + 1])) * MS_OF_TICK;
    if (fields.length > 0)
      found.set(Number(pid), {
        parent: Number(fields[PARENT]),
        own: processMs(Number(pid)) ?? 0,
        ended: ticks(WAITED_FOR),
      });
  }
  return found;
}

/** Empty for a process that has ended meanwhile. */
function statOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.trim().split(" ") ?? [];
  } catch {
    return [];
  }
}
