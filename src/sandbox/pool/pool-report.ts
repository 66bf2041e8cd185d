/** The state and hit counts of the ready pool, in a file for the operator's commands. */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock, Timer } from "../../base/clock.ts";
import type { DataFolder } from "../../system/data-folder.ts";

/** The report is written at most this often. */
export const POOL_REPORT_EVERY_MS = 250;

const FILE = "shelf.json";

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

interface PoolReportsParts {
  data: Pick<DataFolder, "runFolder">;
  clock: Clock;
  failed(error: unknown): void;
}

/** Writes reports at intervals: every boot and create changes the numbers, but the operator reads them rarely. */
export class PoolReports {
  readonly #parts: PoolReportsParts;
  readonly #path: string;
  #written = "";
  #writtenAt = Number.NEGATIVE_INFINITY;
  #last: PoolReport | undefined;
  #timer: Timer | undefined;

  constructor(parts: PoolReportsParts) {
    this.#parts = parts;
    this.#path = join(parts.data.runFolder, FILE);
  }

  /** Never throws. */
  note(report: PoolReport): void {
    this.#last = report;
    if (this.#timer !== undefined) return;
    const { clock } = this.#parts;
    const waitMs = this.#writtenAt + POOL_REPORT_EVERY_MS - clock.now();
    if (waitMs <= 0) this.#writeSafely();
    else this.#timer = clock.after(Math.min(waitMs, POOL_REPORT_EVERY_MS), () => this.#writeSafely());
  }

  #writeSafely(): void {
    this.#timer = undefined;
    this.#writtenAt = this.#parts.clock.now();
    try {
      if (this.#last !== undefined) this.#write(this.#last);
    } catch (error) {
      this.#parts.failed(error);
    }
  }

  #write(report: PoolReport): void {
    const text = JSON.stringify(report);
    if (text === this.#written) return;
    // Renamed into place, so that a reader finds a complete file.
    writeFileSync(`${this.#path}.new`, text, { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
    this.#written = text;
  }
}

/** Undefined: no server runs, or it has not written a report yet. */
export function readPoolReport(data: Pick<DataFolder, "runFolder" | "inUse">): PoolReport | undefined {
  const path = join(data.runFolder, FILE);
  return existsSync(path) && data.inUse ? (JSON.parse(readFileSync(path, "utf8")) as PoolReport) : undefined;
}
