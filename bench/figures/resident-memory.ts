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

/**
 * Resident memory of processes together. A file that several of them map counts once, as much of it as the process has
 * that has most of it; whether other programs map it too makes no difference.
 */
export function residentBytesTogether(pids: readonly number[]): number {
  const files = new Map<string, number>();
  let anonymous = 0;
  for (const pid of pids) {
    const own = new Map<string, number>();
    for (const mapping of mappingsOf(pid)) {
      anonymous += mapping.anonymous;
      own.set(mapping.file, (own.get(mapping.file) ?? 0) + mapping.resident - mapping.anonymous);
    }
    for (const [file, bytes] of own) files.set(file, Math.max(files.get(file) ?? 0, bytes));
  }
  return anonymous + files.values().reduce((sum, bytes) => sum + bytes, 0);
}

/** `file` is the device and inode. */
function mappingsOf(pid: number): { file: string; resident: number; anonymous: number }[] {
  const mappings = readFileSync(`/proc/${pid}/smaps`, "utf8").split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  return mappings.filter(Boolean).map((text) => ({
    file: text.split(" ", 5).slice(3).join(" "),
    resident: kibIn(text, "Rss") * KIB,
    anonymous: kibIn(text, "Anonymous") * KIB,
  }));
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
  const kib = kibIn(readFileSync(`/proc/${pid}/status`, "utf8"), field);
  if (Number.isNaN(kib)) throw new Fault(500, `process ${pid} has no ${field}`);
  return kib * KIB;
}

/** NaN: there is no such field. */
function kibIn(text: string, field: string): number {
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(text)?.[1]);
}
