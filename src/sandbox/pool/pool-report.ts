/** The state and hit counts of the ready pool, and a file with it for the operator's commands. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock, Timer } from "../../base/clock.ts";
import { described, type Log } from "../../base/log.ts";
import type { DataFolder } from "../../system/data-folder.ts";
import { replaceFile } from "../../system/replace-file.ts";

/** The report is written so long after a change, because every boot and create changes the numbers. */
export const POOL_REPORT_AFTER_MS = 250;

const FILE = "ready-pool.json";

/** How creates were served: by a ready sandbox (hit), by one already starting (joined), or by neither (miss). */
interface ServeCounts {
  hits: number;
  joined: number;
  misses: number;
}

export interface PooledTemplate extends ServeCounts {
  templateId: string;
  /** The number of ready and starting sandboxes, the target, and the minimum that the operator keeps. */
  ready: number;
  making: number;
  target: number;
  floor: number;
}

/** Counts since the server started, for all creates that the pool could have served. */
export interface PoolReport extends ServeCounts {
  templates: readonly PooledTemplate[];
  /** The machine is short of memory, so the pool is empty and nothing new starts. */
  isShortOfMemory?: true;
}

/** Adds up the parts of each template, which may have several builds. */
export function byTemplate(parts: readonly PooledTemplate[]): PooledTemplate[] {
  const templates = new Map<string, PooledTemplate>();
  for (const part of parts) {
    const sum = templates.get(part.templateId);
    if (sum === undefined) templates.set(part.templateId, { ...part });
    else for (const name of NUMBERS) sum[name] += part[name];
  }
  return [...templates.values()];
}

const NUMBERS = ["ready", "making", "target", "floor", "hits", "joined", "misses"] as const;

export class PoolReports {
  readonly #path: string;
  #last: PoolReport | undefined;
  #timer: Timer | undefined;

  constructor(
    { runFolder }: Pick<DataFolder, "runFolder">,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {
    this.#path = join(runFolder, FILE);
  }

  /** Never throws. */
  note(report: PoolReport): void {
    this.#last = report;
    this.#timer ??= this.clock.after(POOL_REPORT_AFTER_MS, () => this.#write());
  }

  #write(): void {
    this.#timer = undefined;
    try {
      replaceFile(this.#path, JSON.stringify(this.#last));
    } catch (error) {
      const event = "the report of ready sandboxes is not written";
      this.log.write({ level: "warn", event, error: described(error) });
    }
  }
}

/** Undefined: no server runs, or it has not written a report yet. */
export function readPoolReport(data: Pick<DataFolder, "runFolder" | "inUse">): PoolReport | undefined {
  const path = join(data.runFolder, FILE);
  return existsSync(path) && data.inUse ? (JSON.parse(readFileSync(path, "utf8")) as PoolReport) : undefined;
}
