/** What is kept ready at this moment and how often it was of use, in a file for the operator's commands. */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock, Timer } from "../../base/clock.ts";
import type { DataFolder } from "../../system/data-folder.ts";

/** What is ready is written down for the operator no more often. */
export const POOL_REPORT_EVERY_MS = 250;

const FILE = "shelf.json";

/** How creates were served: by one that was ready, by one that was about to be, by neither. */
interface ServeCounts {
  hits: number;
  joined: number;
  misses: number;
}

export interface PooledTemplate extends ServeCounts {
  templateId: string;
  /** How many are ready, on their way, there should be, and are kept in any case. */
  ready: number;
  making: number;
  target: number;
  floor: number;
}

/** The counts are since the server started, of all creates that could have been served. */
export interface PoolReport extends ServeCounts {
  templates: readonly PooledTemplate[];
}

/** Parts of one template are taken together: it may have several builds. */
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

/** Each boot and each create changes something, and the operator looks now and then: it is written now and then. */
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
    // In one step: whoever reads it finds all of it.
    writeFileSync(`${this.#path}.new`, text, { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
    this.#written = text;
  }
}

/** Undefined: no server runs, or it has written none yet. */
export function readPoolReport(data: Pick<DataFolder, "runFolder" | "inUse">): PoolReport | undefined {
  const path = join(data.runFolder, FILE);
  return existsSync(path) && data.inUse ? (JSON.parse(readFileSync(path, "utf8")) as PoolReport) : undefined;
}
