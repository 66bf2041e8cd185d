/** The table of `sandlot top`: one line for each sandbox. */
import { printable } from "../../../base/printable.ts";
import type { AdminSandbox, ServerStatus } from "../../server/admin/server-status.ts";

/** The sandboxes at one moment. */
export interface Sample {
  atMs: number;
  sandboxes: readonly AdminSandbox[];
}

interface TopRow {
  id: string;
  template: string;
  team: string;
  state: string;
  ageMs: number;
  /** Percent of one processor since the earlier sample; undefined: unknown. */
  cpu: number | undefined;
  memory: number | undefined;
  disk: number | undefined;
  saved: number | undefined;
}

export const SORT_KEYS = ["cpu", "memory", "disk", "saved", "age", "team", "template", "state", "id"] as const;
export type SortKey = (typeof SORT_KEYS)[number];

const HEAD = ["ID", "TEMPLATE", "TEAM", "STATE", "AGE", "CPU%", "MEM", "DISK", "SAVED"] as const;
const WIDTHS = [21, 20, 14, 12, 7, 6, 7, 7, 7] as const;
/** These and those after them are numbers, aligned to the right. */
const FIRST_NUMBER = 4;
const TEXT_MAX_CHARS = 64;
const UNITS = ["", "K", "M", "G", "T"] as const;

export function rowsOf(earlier: Sample | undefined, now: Sample): TopRow[] {
  const before = new Map(earlier?.sandboxes.map((each) => [each.id, each.usage?.cpuUsedMs]));
  const elapsedMs = now.atMs - (earlier?.atMs ?? now.atMs);
  return now.sandboxes.map(({ id, alias, templateId, team, state, startedAt, usage, savedBytes }) => {
    const usedBefore = before.get(id);
    const isKnown = usage !== undefined && usedBefore !== undefined && elapsedMs > 0;
    return {
      id,
      template: alias || templateId,
      team,
      state,
      ageMs: Math.max(0, now.atMs - startedAt),
      // A resumed sandbox counts from zero again.
      cpu: isKnown ? Math.max(0, ((usage.cpuUsedMs - usedBefore) / elapsedMs) * 100) : undefined,
      memory: usage && usage.memUsed + usage.memCache,
      disk: usage?.diskUsed,
      saved: savedBytes,
    };
  });
}

/** Numbers begin with the largest, texts with the first. */
export function sorted(rows: readonly TopRow[], key: SortKey): TopRow[] {
  if (key === "id" || key === "team" || key === "template" || key === "state") {
    return rows.toSorted((one, other) => one[key].localeCompare(other[key]) || one.id.localeCompare(other.id));
  }
  const numberOf = (row: TopRow) => (key === "age" ? row.ageMs : row[key]) ?? -1;
  return rows.toSorted((one, other) => numberOf(other) - numberOf(one) || one.id.localeCompare(other.id));
}

/** Rows with this text in id, template, team or state. */
export function filtered(rows: readonly TopRow[], text: string): TopRow[] {
  const wanted = text.toLowerCase();
  return rows.filter(({ id, template, team, state }) =>
    [id, template, team, state].some((value) => value.toLowerCase().includes(wanted)),
  );
}

export function lineOf({ id, template, team, state, ageMs, cpu, memory, disk, saved }: TopRow): string {
  const used = cpu === undefined ? "-" : cpu.toFixed(1);
  return line([id, template, team, state, age(ageMs), used, bytes(memory), bytes(disk), bytes(saved)]);
}

export function headLine(): string {
  return line(HEAD);
}

export function summary({ version, dataFolder, sandboxes, ready, slots, memory, disk }: ServerStatus): string[] {
  const states = Object.entries(sandboxes).map(([state, count]) => `${count} ${state}`);
  return [
    printable(`sandlot ${version}  ${dataFolder}`),
    printable(`${states.join(", ") || "no sandboxes"}; ${ready} ready; ${slots.free} of ${slots.total} slots free`),
    `memory ${bytes(memory.availableBytes)} of ${bytes(memory.totalBytes)} available, ` +
      `${bytes(memory.promisedBytes)} promised, ${bytes(memory.savedBytes)} saved by sharing; ` +
      `disk ${bytes(disk.freeBytes)} of ${bytes(disk.totalBytes)} free`,
  ];
}

function line(cells: readonly string[]): string {
  const padded = cells.map((cell, at) => {
    const text = printable(cell).slice(0, TEXT_MAX_CHARS);
    const width = WIDTHS[at] ?? 0;
    if (at >= FIRST_NUMBER) return text.padStart(width);
    return (text.length > width ? `${text.slice(0, width - 1)}…` : text).padEnd(width);
  });
  return padded.join(" ").trimEnd();
}

function age(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return `${Math.floor(ms / 1000)}s`;
  if (minutes < 60) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours}h${String(minutes % 60).padStart(2, "0")}m` : `${Math.floor(hours / 24)}d${hours % 24}h`;
}

function bytes(count: number | undefined): string {
  if (count === undefined) return "-";
  let [value, unit] = [count, 0];
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)}${UNITS[unit]}`;
}
