/** Memory of processes: growth from a start value to the peak since, which the kernel records. */
import { readFileSync, writeFileSync } from "node:fs";
import { Fault } from "../../src/contract/fault.ts";

const KIB = 1024;
const MIB = 1024 ** 2;
/** Written to /proc/PID/clear_refs, this resets the peak. */
const FORGET_PEAK = "5";

export function residentBytes(pid: number): number {
  return statusBytes(pid, "VmRSS");
}

export class PeakGrowth {
  readonly #before: { name: string; pid: number; bytes: number }[];

  /** Starts measuring. */
  constructor(pids: Readonly<Record<string, number>>) {
    this.#before = Object.entries(pids).map(([name, pid]) => ({ name, pid, bytes: residentBytes(pid) }));
    for (const { pid } of this.#before) writeFileSync(`/proc/${pid}/clear_refs`, FORGET_PEAK);
  }

  /** Reports the growth of every process, and which ones exceed the limit. */
  judge(maxBytes: number): { note: string; broken: string[] } {
    const grown = this.#before.map(({ name, pid, bytes }) => {
      const more = Math.max(0, statusBytes(pid, "VmHWM") - bytes);
      return { more, text: `${name} +${mib(more)} MiB at its peak (from ${mib(bytes)})` };
    });
    return {
      note: `memory: ${grown.map(({ text }) => text).join(", ")}`,
      broken: grown.filter(({ more }) => more > maxBytes).map(({ text }) => `${text}; ${mib(maxBytes)} MiB is allowed`),
    };
  }
}

export function mib(bytes: number): string {
  return (bytes / MIB).toFixed(0);
}

function statusBytes(pid: number, field: string): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  const kib = Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(text)?.[1]);
  if (Number.isNaN(kib)) throw new Fault(500, `process ${pid} has no ${field}`);
  return kib * KIB;
}
